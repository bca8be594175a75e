// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who uses the libraries resolves what the benchmarks need.
let package = Package(
  name: "capture-benchmarks",
  dependencies: [.package(name: "stalld", path: "../.."), .package(path: "../Support")],
  targets: [
    // Optimized always: it is what is captured.
    .target(name: "CTarget", cSettings: [.unsafeFlags(["-O2"])]),
    .target(name: "CxxThrow"),
    // The same exceptions in a program without the monitor.
    .executableTarget(name: "throw-alone", dependencies: ["CxxThrow"]),
    .executableTarget(
      name: "throw-watched",
      dependencies: [
        "CxxThrow", .product(name: "LoopEngine", package: "stalld"), .product(name: "StallMonitor", package: "stalld"),
      ]),
    .executableTarget(
      name: "bench-capture",
      dependencies: [
        "CTarget", .product(name: "LoopEngine", package: "stalld"),
        .product(name: "BenchmarkSupport", package: "Support"),
        .product(name: "StallMonitor", package: "stalld"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
