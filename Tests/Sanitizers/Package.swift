// swift-tools-version: 6.1
import PackageDescription

// What `make sanitize` builds: as little as each sanitizer needs, so that a build takes a minute.
// `Sources` and `Tests` are links to the repository's directories, since a package may not reach outside of its own.
let isForThreads = Context.environment["SANITIZER"] == "thread"

var targets: [Target] = [
  .target(name: "CLinux", path: "Sources/CLinux"),
  .target(name: "PlatformLibc", path: "Sources/PlatformLibc"),
  .target(name: "DescriptorIO", dependencies: ["CLinux", "PlatformLibc"], path: "Sources/DescriptorIO"),
  .target(name: "CUnwind", path: "Sources/CUnwind"),
  .target(name: "CSymbols", path: "Sources/CSymbols"),
  .target(name: "TurnSource", dependencies: ["CLinux"], path: "Sources/TurnSource"),
  .target(
    name: "LoopEngine", dependencies: ["CLinux", "PlatformLibc", "TurnSource"], path: "Sources/LoopEngine"),
  .target(name: "StallReport", dependencies: ["PlatformLibc"], path: "Sources/StallReport"),
  .target(name: "StallDetection", dependencies: ["StallReport"], path: "Sources/StallDetection"),
  .target(
    name: "StallNaming", dependencies: ["CSymbols", "PlatformLibc", "StallReport"], path: "Sources/StallNaming"),
  .target(
    name: "StallCapture", dependencies: ["CLinux", "CUnwind", "PlatformLibc", "DescriptorIO", "StallReport"],
    path: "Sources/StallCapture"),
  .target(
    name: "StallMonitor",
    dependencies: [
      "CLinux", "CUnwind", "PlatformLibc", "TurnSource", "DescriptorIO", "StallReport", "StallDetection",
      "StallNaming", "StallCapture",
    ],
    path: "Sources/StallMonitor"),
  .target(name: "VictimC", path: "Tests/Victims/VictimC"),
  .target(
    name: "TestSupport", dependencies: ["StallReport", "StallDetection", "StallNaming"], path: "Tests/TestSupport"),
]
if isForThreads {
  targets += [
    .testTarget(
      name: "LoopEngineTests", dependencies: ["LoopEngine", "TurnSource", "CLinux", "VictimC", "TestSupport"],
      path: "Tests/LoopEngineTests",
      // The first runs an executable of the other package, the second reads files of the repository, and the third
      // compiles programs without the sanitizer.
      exclude: ["MainThreadTests.swift", "PromiseTableTests.swift", "RecipeTests.swift"]),
    .testTarget(
      name: "PulseTests",
      dependencies: [
        "StallMonitor", "StallDetection", "StallCapture", "StallReport", "LoopEngine", "TurnSource", "CLinux",
        "TestSupport",
      ],
      path: "Tests/StallMonitorTests",
      sources: [
        "HeartbeatTests.swift", "PulseThreadsTests.swift", "TickScaleTests.swift", "TurnSourceRegistryTests.swift",
        "WatchedLoopTests.swift",
      ]),
  ]
} else {
  targets += [
    .target(name: "VictimCxx", path: "Tests/Victims/VictimCxx"),
    .target(name: "FuzzUnwind", dependencies: ["CUnwind"], path: "Tests/Fuzz/Unwind"),
    .executableTarget(
      name: "StallVictim", dependencies: ["LoopEngine", "StallMonitor", "VictimC"], path: "Tests/Victims/StallVictim"),
    .testTarget(
      name: "CaptureTests",
      dependencies: [
        "StallMonitor", "StallReport", "StallNaming", "StallCapture", "CUnwind", "CLinux", "VictimC", "VictimCxx",
        "FuzzUnwind", "TestSupport",
      ],
      path: "Tests/StallMonitorTests",
      sources: [
        "CaptureTests.swift", "SuiteGroups.swift", "PatientCapture.swift",
        "SymbolFilesTests.swift", "SymbolFixtures.swift", "SymbolHostileTests.swift", "SymbolNamesTests.swift",
        "SymbolizerTests.swift",
        "UnwindGarbageTests.swift",
      ]),
  ]
}

let package = Package(name: "sanitizers", targets: targets, swiftLanguageModes: [.v6])
