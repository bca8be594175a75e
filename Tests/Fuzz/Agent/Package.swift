// swift-tools-version: 6.1
import PackageDescription

// What `make fuzz` builds of the agent and of its hosts: what reads strangers' bytes, and no more, so that a build takes a minute.
// `Sources` is a link to the repository's directory, since a package may not reach outside of its own.
let package = Package(
  name: "fuzz-agent",
  targets: [
    .target(name: "CLinux", path: "Sources/CLinux"),
    .target(name: "PlatformLibc", path: "Sources/PlatformLibc"),
    .target(name: "DescriptorIO", dependencies: ["CLinux", "PlatformLibc"], path: "Sources/DescriptorIO"),
    .target(name: "CUnwind", path: "Sources/CUnwind"),
    .target(name: "CSymbols", path: "Sources/CSymbols"),
    .systemLibrary(name: "CYAML", path: "Sources/CYAML"),
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
    .target(
      name: "AgentInput",
      dependencies: ["StallReport", "StallMonitor", "LoopEngine", "CLinux", "DescriptorIO", "CYAML"],
      path: "Sources/stalld",
      // What these need, file by file: the command itself needs other packages.
      exclude: ["Agent/Settings/AgentOptions.swift"],
      sources: [
        "Agent/Settings", "Agent/Ingest/LineScanner.swift", "Agent/Ingest/FrameScan.swift",
        "Agent/Ingest/HostMessage.swift", "Agent/AgentLog.swift", "Agent/LogStream.swift",
        "Agent/Output/SyslogAddress.swift", "Agent/Output/RotatedName.swift",
        "Agent/Metrics/MetricsAddress.swift", "Agent/LoopbackAddress.swift", "Agent/StreamListener.swift",
        "Agent/SocketLock.swift",
        "Terminal/SystemError.swift",
      ]),
    .executableTarget(
      name: "FuzzAgent", dependencies: ["AgentInput", "StallReport"], path: "FuzzAgent",
      swiftSettings: [.unsafeFlags(["-parse-as-library"])]),
  ],
  swiftLanguageModes: [.v6]
)
