// swift-tools-version: 6.1
import Foundation
import PackageDescription

// A peer whose header is missing is left out; the benchmark then says which Debian packages to install.
func has(_ header: String) -> Bool { FileManager.default.fileExists(atPath: "/usr/include/\(header)") }
let architecture = "x86_64-linux-gnu"
var cSettings: [CSetting] = [.unsafeFlags(["-O2"])]
var linkerSettings: [LinkerSetting] = []
if has("uv.h") { linkerSettings.append(.linkedLibrary("uv")) }
// libev exports an emulation of libevent's functions: the real ones must come first.
if has("event2/event.h") { linkerSettings.append(.linkedLibrary("event")) }
if has("ev.h") { linkerSettings.append(.linkedLibrary("ev")) }
if has("glib-2.0/glib.h") {
  linkerSettings.append(.linkedLibrary("glib-2.0"))
  cSettings.append(
    .unsafeFlags([
      "-I/usr/include/glib-2.0", "-I/usr/lib/\(architecture)/glib-2.0/include", "-DHAVE_GLIB",
    ]))
}

let package = Package(
  name: "LoopBenchmark",
  dependencies: [
    .package(name: "stalld", path: "../.."), .package(path: "../Support"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.90.0"),
  ],
  targets: [
    .target(name: "CPeers", cSettings: cSettings, linkerSettings: linkerSettings),
    .executableTarget(
      name: "LoopBenchmark",
      dependencies: [
        "CPeers", .product(name: "BenchmarkSupport", package: "Support"),
        .product(name: "LoopEngine", package: "stalld"), .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOCore", package: "swift-nio"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
