// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "foundation-service",
  // In a package of your own this is `.package(url: …, from: …)`.
  dependencies: [.package(name: "stalld", path: "../..")],
  targets: [
    .executableTarget(
      name: "foundation-service", dependencies: [.product(name: "StallMonitor", package: "stalld")])
  ],
  swiftLanguageModes: [.v6]
)
