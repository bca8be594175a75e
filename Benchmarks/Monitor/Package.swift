// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who uses the libraries resolves what the benchmarks need.
let package = Package(
  name: "monitor-benchmarks",
  dependencies: [.package(name: "stalld", path: "../.."), .package(path: "../Support")],
  targets: [
    .target(name: "CFoundationTurns"),
    .executableTarget(
      name: "bench-monitor",
      dependencies: [
        "CFoundationTurns", .product(name: "BenchmarkSupport", package: "Support"),
        .product(name: "LoopEngine", package: "stalld"), .product(name: "StallMonitor", package: "stalld"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
