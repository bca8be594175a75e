// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "nio-echo",
  // In a package of your own these are `.package(url: …, from: …)`.
  dependencies: [
    .package(path: "../../Integrations/StallMonitorNIO"), .package(name: "stalld", path: "../.."),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
  ],
  targets: [
    .executableTarget(
      name: "nio-echo",
      dependencies: [
        "StallMonitorNIO", .product(name: "StallMonitor", package: "stalld"),
        .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
      ])
  ],
  swiftLanguageModes: [.v6]
)
