// swift-tools-version: 6.1
import PackageDescription

// The tests of the traits, as a host uses them: a package that depends on ours and switches them on.
let package = Package(
  name: "EcosystemIntegration",
  dependencies: [
    .package(
      name: "stalld", path: "../..",
      traits: ["SwiftLog", "SwiftMetrics", "SwiftServiceLifecycle", "SwiftConfiguration"]),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0"),
  ],
  targets: [
    // A host program that the tests run.
    .executableTarget(
      name: "EcosystemVictim",
      dependencies: [
        .product(name: "LoopEngine", package: "stalld"), .product(name: "StallMonitor", package: "stalld"),
        .product(name: "Logging", package: "swift-log"), .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      path: "Tests/EcosystemVictim"),
    .testTarget(
      name: "EcosystemTests",
      dependencies: [
        "EcosystemVictim", .product(name: "StallMonitor", package: "stalld"),
        .product(name: "Configuration", package: "swift-configuration"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "MetricsTestKit", package: "swift-metrics"),
      ],
      // Reads what is internal to the library.
      exclude: ["TestSupport/FingerprintCorpus.swift", "TestSupport/Instant+Literal.swift"]),
  ],
  swiftLanguageModes: [.v6]
)
