// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who does not use SwiftNIO resolves it.
let package = Package(
  name: "StallMonitorNIO",
  products: [.library(name: "StallMonitorNIO", targets: ["StallMonitorNIO"])],
  dependencies: [
    .package(name: "stalld", path: "../.."),
    .package(path: "../../Benchmarks/Support"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
  ],
  targets: [
    .target(
      name: "StallMonitorNIO",
      dependencies: [
        .product(name: "StallMonitor", package: "stalld"),
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
      ]),
    // A host program that the tests run.
    .executableTarget(
      name: "NIOVictim",
      dependencies: [
        "StallMonitorNIO", .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
      ],
      path: "Tests/NIOVictim"),
    // Echo throughput, watched and not; run by `make bench-nio`.
    .executableTarget(
      name: "bench-nio",
      dependencies: [
        "StallMonitorNIO", .product(name: "BenchmarkSupport", package: "Support"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      path: "Benchmarks/bench-nio"),
    .testTarget(
      name: "StallMonitorNIOTests", dependencies: ["NIOVictim"],
      // Reads what is internal to the library.
      exclude: ["TestSupport/FingerprintCorpus.swift", "TestSupport/Instant+Literal.swift"]),
  ],
  swiftLanguageModes: [.v6]
)
