// swift-tools-version: 6.1
import PackageDescription

// What all benchmark packages use: rows, statistics, tables, result files, the clock.
let package = Package(
  name: "benchmark-support",
  products: [.library(name: "BenchmarkSupport", targets: ["BenchmarkSupport"])],
  targets: [.target(name: "BenchmarkSupport")],
  swiftLanguageModes: [.v6]
)
