// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "hello-service",
  // In a package of your own this is `.package(url: …, from: …)`.
  dependencies: [.package(name: "stalld", path: "../..")],
  targets: [
    .executableTarget(
      name: "hello-service",
      dependencies: [
        .product(name: "LoopEngine", package: "stalld"), .product(name: "StallMonitor", package: "stalld"),
      ])
  ],
  swiftLanguageModes: [.v6]
)
