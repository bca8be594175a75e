// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "stalld",
  products: [
    .library(name: "LoopEngine", targets: ["LoopEngine"]),
    .library(name: "StallMonitor", targets: ["StallMonitor"]),
    // libstallmonitor.so; scripts/build-c-library makes it as hosts in C want it.
    .library(name: "stallmonitor", type: .dynamic, targets: ["StallMonitorC"]),
    .executable(name: "stalld", targets: ["stalld"]),
  ],
  // What a host may switch on: each adds one dependency, and its file in Sources/StallMonitor/Ecosystem.
  traits: [
    .trait(name: "SwiftLog", description: "StallMonitorConfiguration.logger"),
    .trait(name: "SwiftMetrics", description: "StallMonitorConfiguration.metricsFactory"),
    .trait(name: "SwiftServiceLifecycle", description: "StallMonitorService"),
    .trait(name: "SwiftConfiguration", description: "StallMonitorConfiguration.init(config:)"),
    .default(enabledTraits: []),
  ],
  dependencies: [
    // Used by the `stalld` command alone; without traits the two libraries depend on no package.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    // Readers alone; the service chooses the providers.
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
  ],
  targets: [
    .target(name: "CLinux"),
    // Exports the C library of the platform: Glibc or Musl.
    .target(name: "PlatformLibc"),
    // libunwind and libdw are opened at run time and never linked: see the headers libunwind_table.h and libdw_table.h.
    .target(name: "CUnwind"),
    .target(name: "CSymbols"),
    // Descriptors in use: whole lines out, numbers that are checked, addresses of sockets, files that are replaced whole.
    .target(name: "DescriptorIO", dependencies: ["CLinux", "PlatformLibc"]),
    // What a loop and a monitor know of each other, so that neither links the other.
    .target(name: "TurnSource", dependencies: ["CLinux"]),
    .target(name: "LoopEngine", dependencies: ["CLinux", "PlatformLibc", "TurnSource"]),
    // The report as data: no input or output, no threads.
    .target(name: "StallReport", dependencies: ["PlatformLibc"]),
    // Decisions: time, readings and samples in, decisions out. No clock, no threads, no input or output.
    .target(name: "StallDetection", dependencies: ["StallReport"]),
    // Names for addresses.
    .target(name: "StallNaming", dependencies: ["CSymbols", "PlatformLibc", "StallReport"]),
    // What threads do, as addresses and module identities.
    .target(
      name: "StallCapture", dependencies: ["CLinux", "CUnwind", "PlatformLibc", "DescriptorIO", "StallReport"]),
    .target(
      name: "StallMonitor",
      dependencies: [
        "CLinux", "CUnwind", "PlatformLibc", "TurnSource", "DescriptorIO", "StallReport", "StallDetection",
        "StallNaming", "StallCapture",
        .product(name: "Logging", package: "swift-log", condition: .when(traits: ["SwiftLog"])),
        .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["SwiftMetrics"])),
        .product(
          name: "ServiceLifecycle", package: "swift-service-lifecycle",
          condition: .when(traits: ["SwiftServiceLifecycle"])),
        .product(
          name: "Configuration", package: "swift-configuration", condition: .when(traits: ["SwiftConfiguration"])),
      ]),
    // stallmonitor.h, and its implementation.
    .target(name: "CStallMonitor"),
    .target(name: "StallMonitorC", dependencies: ["CStallMonitor", "StallMonitor"], exclude: ["stallmonitor.map"]),
    // Well-kept libraries of the system's: YAML, compression, HTTP.
    .systemLibrary(name: "CYAML"),
    .systemLibrary(name: "CZlib"),
    .systemLibrary(name: "CMicrohttpd"),
    .executableTarget(
      name: "stalld",
      dependencies: [
        "LoopEngine", "StallReport", "StallNaming", "StallCapture", "StallMonitor", "CLinux", "CSymbols",
        "DescriptorIO",
        "CYAML", "CZlib", "CMicrohttpd",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      // The parts of `stalld report --html`.
      resources: [
        "page.css", "model.js", "timeline.js", "histogram.js", "flame.js", "stall.js", "ranking.js", "page.js",
      ]
      .map { .embedInCode("Report/HTML/Page/" + $0) }
    ),
    // Host programs that the tests run.
    .target(name: "VictimC", path: "Tests/Victims/VictimC"),
    .target(name: "VictimCxx", path: "Tests/Victims/VictimCxx"),
    .executableTarget(
      name: "ThrowVictim", dependencies: ["LoopEngine", "StallMonitor", "VictimCxx"], path: "Tests/Victims/ThrowVictim"),
    .target(name: "FuzzUnwind", dependencies: ["CUnwind"], path: "Tests/Fuzz/Unwind"),
    .executableTarget(
      name: "StallVictim", dependencies: ["LoopEngine", "StallMonitor", "VictimC"], path: "Tests/Victims/StallVictim"),
    // A host on Foundation's run loop.
    .executableTarget(name: "FoundationVictim", dependencies: ["StallMonitor"], path: "Tests/Victims/FoundationVictim"),
    // Hosts whose main queue has no run loop.
    .executableTarget(
      name: "DispatchMainVictim", dependencies: ["StallMonitor", "CLinux", "VictimC"],
      path: "Tests/Victims/DispatchMainVictim"),
    .executableTarget(
      name: "AsyncStackVictim", dependencies: ["StallMonitor", "CLinux"], path: "Tests/Victims/AsyncStackVictim"),
    .executableTarget(name: "AsyncMainVictim", dependencies: ["StallMonitor"], path: "Tests/Victims/AsyncMainVictim"),
    // A service whose work is done by tasks.
    .executableTarget(
      name: "TaskVictim", dependencies: ["StallMonitor", "VictimC"], path: "Tests/Victims/TaskVictim"),
    // A main thread of its own, which a test process does not give.
    .executableTarget(
      name: "MainThreadVictim", dependencies: ["LoopEngine", "CLinux"], path: "Tests/Victims/MainThreadVictim"),
    // What all test targets use: victims, written lines, the corpus, waiting, suites that take turns. Packages under Integrations have it by a link.
    .target(
      name: "TestSupport", dependencies: ["StallReport", "StallDetection", "StallNaming"], path: "Tests/TestSupport"),
    // Processes watched and unwatched, side by side: the scenarios, `make matrix`, and the suites.
    .target(name: "Matrix", dependencies: ["TestSupport"], path: "Tests/Matrix"),
    .executableTarget(name: "run-matrix", dependencies: ["Matrix"], path: "Tests/MatrixCommand"),
    .testTarget(name: "MatrixTests", dependencies: ["Matrix", "TestSupport"]),
    .testTarget(name: "StallReportTests", dependencies: ["StallReport", "StallMonitor", "stalld", "TestSupport"]),
    .testTarget(
      name: "StallDetectionTests",
      dependencies: ["StallDetection", "StallMonitor", "StallCapture", "StallReport", "TestSupport"],
      exclude: ["Fixtures"]),
    .testTarget(name: "DescriptorIOTests", dependencies: ["DescriptorIO"]),
    .testTarget(
      name: "LoopEngineTests",
      dependencies: ["LoopEngine", "TurnSource", "CLinux", "MainThreadVictim", "VictimC", "TestSupport"]),
    .testTarget(
      name: "StallMonitorTests",
      dependencies: [
        "StallMonitor", "StallReport", "StallDetection", "StallNaming", "StallCapture", "LoopEngine", "TurnSource",
        "CUnwind", "CSymbols", "CLinux", "FuzzUnwind", "VictimC", "VictimCxx", "StallVictim", "FoundationVictim",
        "DispatchMainVictim",
        "AsyncMainVictim", "AsyncStackVictim", "TaskVictim",
        "ThrowVictim", "stalld", "TestSupport",
      ]),
    .testTarget(
      name: "StalldTests",
      dependencies: [
        "stalld", "CLinux", "DescriptorIO", "StallReport", "StallDetection", "StallCapture", "LoopEngine",
        "StallVictim", "TestSupport",
      ]),
  ],
  swiftLanguageModes: [.v6]
)

// On another platform than Linux the library is a monitor that watches nothing, without a C target. The manifest sees the platform that builds:
// STALLMONITOR_PLATFORM=linux is for building for Linux elsewhere, and =other shows the other form on Linux.
#if os(Linux)
let builtFor = Context.environment["STALLMONITOR_PLATFORM"] ?? "linux"
#else
let builtFor = Context.environment["STALLMONITOR_PLATFORM"] ?? "other"
#endif

if builtFor != "linux" {
  package.platforms = [.macOS(.v13)]
  package.products = [
    .library(name: "LoopEngine", targets: ["LoopEngine"]), .library(name: "StallMonitor", targets: ["StallMonitor"]),
  ]
  let packages = package.targets.first { $0.name == "StallMonitor" }?.dependencies.filter {
    if case .productItem = $0 { true } else { false }
  }
  package.targets = [
    // Compiles nowhere, and says why.
    .target(name: "LoopEngine", path: "Sources/LoopEngineElsewhere"),
    .target(
      name: "StallMonitor", dependencies: packages ?? [], path: "Sources",
      sources: [
        "StallMonitorElsewhere",
        "StallMonitor/Actions/StallAction.swift",
        "StallMonitor/Actions/StallNotice.swift",
        "StallMonitor/Configuration/Configuration.swift",
        "StallMonitor/Configuration/ConfigurationCheck.swift",
        "StallMonitor/Configuration/SettingLimits.swift",
        "StallMonitor/Configuration/SinkForm.swift",
        "StallMonitor/Configuration/StallMonitorError.swift",
        "StallMonitor/Diagnostics/StateNote.swift",
        "StallMonitor/Ecosystem/StallMonitorConfiguration+Logger.swift",
        "StallMonitor/Ecosystem/StallMonitorService.swift",
        "StallMonitor/Heartbeat/Heartbeat.swift",
        "StallMonitor/Heartbeat/LoopDescription.swift",
        "StallMonitor/Report/ThreadBacktrace.swift",
        "StallMonitor/Telemetry/Telemetry.swift",
        "StallMonitor/Watchdog/WatchedLoopStatus.swift",
      ]),
  ]
}
