// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "hummingbird-service",
  platforms: [.macOS(.v14)],
  // In a package of your own these are `.package(url: …, from: …)`.
  dependencies: [
    .package(path: "../../Integrations/StallMonitorNIO"), .package(name: "stalld", path: "../.."),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
  ],
  targets: [
    .executableTarget(
      name: "hummingbird-service",
      dependencies: [
        "StallMonitorNIO", .product(name: "StallMonitor", package: "stalld"),
        .product(name: "Hummingbird", package: "hummingbird"), .product(name: "NIOPosix", package: "swift-nio"),
      ])
  ],
  swiftLanguageModes: [.v6]
)
