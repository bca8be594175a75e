// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who uses the libraries resolves what the benchmarks need.
let package = Package(
  name: "agent-benchmarks",
  dependencies: [.package(name: "stalld", path: "../.."), .package(path: "../Support")],
  targets: [
    .executableTarget(
      name: "bench-agent",
      dependencies: [
        .product(name: "LoopEngine", package: "stalld"), .product(name: "BenchmarkSupport", package: "Support"),
      ])
  ],
  swiftLanguageModes: [.v6]
)
