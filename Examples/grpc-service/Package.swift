// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "grpc-service",
  platforms: [.macOS(.v15)],
  // In a package of your own these are `.package(url: …, from: …)`.
  dependencies: [
    .package(path: "../../Integrations/StallMonitorNIO"), .package(name: "stalld", path: "../.."),
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.0"),
    .package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
  ],
  targets: [
    .executableTarget(
      name: "grpc-service",
      dependencies: [
        "StallMonitorNIO", .product(name: "StallMonitor", package: "stalld"),
        .product(name: "GRPCCore", package: "grpc-swift-2"),
        .product(name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ])
  ],
  swiftLanguageModes: [.v6]
)
