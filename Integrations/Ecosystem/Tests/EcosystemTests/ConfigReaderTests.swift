import Configuration
import Foundation
import StallMonitor
import Testing

/// A configuration from the sources that a host reads.
struct ConfigReaderTests {
  @Test func variablesOfAScopedReaderAreTheMonitorsOwn() throws {
    let reader = ConfigReader(
      provider: EnvironmentVariablesProvider(environmentVariables: [
        "STALLMONITOR_ENABLED": "no", "STALLMONITOR_THRESHOLD": "100ms",
        "STALLMONITOR_SINK": "file:/var/log/stalls.jsonl",
        "STALLMONITOR_REPEAT_WINDOW": "2min", "STALLMONITOR_MAXIMUM_REPORTS_PER_MINUTE": "7",
        "STALLMONITOR_OTHER_THREADS": "all", "STALLMONITOR_RESAMPLE_INTERVAL": "20ms",
        "STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG": "on", "STALLMONITOR_ABORT_AFTER": "1h",
        "STALLMONITOR_WRITE_DETAIL_FILE_AFTER": "1s", "STALLMONITOR_WATCHES_TASK_POOL": "false",
        "STALLMONITOR_BACKGROUND_TASK_THRESHOLD": "2s", "STALLMONITOR_STATE_DIRECTORY": "/run/app",
        "STALLMONITOR_SERVICE_NAME": "shop", "STALLMONITOR_SERVICE_VERSION": "1.2",
      ]))
    let read = try StallMonitorConfiguration(config: reader.scoped(to: "stallmonitor"))
    var expected = StallMonitorConfiguration()
    expected.isEnabled = false
    expected.threshold = .milliseconds(100)
    expected.sink = .file(path: "/var/log/stalls.jsonl")
    expected.repeatWindow = .seconds(120)
    expected.maximumReportsPerMinute = 7
    expected.otherThreads = .all
    expected.notifiesSystemdWatchdog = true
    expected.actions = [.writeDetailFile(after: .seconds(1)), .abort(after: .seconds(3600))]
    expected.watchesTaskPool = false
    expected.backgroundTaskThreshold = .seconds(2)
    expected.resampleInterval = .milliseconds(20)
    expected.stateDirectory = "/run/app"
    expected.serviceName = "shop"
    expected.serviceVersion = "1.2"
    #expect(read == expected)
  }

  @Test func valuesOfAFileHaveTheirTypes() async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "stallmonitor-\(UUID().uuidString).json")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data(
      #"{"stallmonitor": {"enabled": false, "threshold": "1.5s", "maximumReportsPerMinute": 0, "serviceName": 7}}"#.utf8
    ).write(
      to: file)
    let reader = ConfigReader(provider: try await FileProvider<JSONSnapshot>(filePath: .init(file.path)))
    let read = try StallMonitorConfiguration(config: reader.scoped(to: "stallmonitor"))
    #expect(!read.isEnabled)
    #expect(read.threshold == .milliseconds(1500))
    #expect(read.maximumReportsPerMinute == 0)
    #expect(read.serviceName == "7")
  }

  @Test func earlierKeysAreRead() throws {
    let earlier: [AbsoluteConfigKey: ConfigValue] = [
      "budget": 7, "sampling": "1s", "threads": "all", "systemdWatchdog": true, "detailAfter": "1s",
      "cooperativePool": false,
    ]
    var expected = StallMonitorConfiguration()
    expected.maximumReportsPerMinute = 7
    expected.resampleInterval = .seconds(1)
    expected.otherThreads = .all
    expected.notifiesSystemdWatchdog = true
    expected.actions = [.writeDetailFile(after: .seconds(1))]
    expected.watchesTaskPool = false
    #expect(
      try StallMonitorConfiguration(config: ConfigReader(provider: InMemoryProvider(values: earlier))) == expected)
    let both = earlier.merging(["maximumReportsPerMinute": 8]) { $1 }
    let read = try StallMonitorConfiguration(config: ConfigReader(provider: InMemoryProvider(values: both)))
    #expect(read.maximumReportsPerMinute == 8)
  }

  @Test func missingKeysHaveTheirDefaults() throws {
    let read = try StallMonitorConfiguration(config: ConfigReader(provider: InMemoryProvider(values: [:])))
    #expect(read == StallMonitorConfiguration())
  }

  @Test(
    arguments: [
      ("threshold", "fast", "fast", "250ms"), ("threshold", 250, "250", "a unit"), ("threshold", "0ms", "0ms", "1ms"),
      ("threshold", ConfigValue(.stringArray(["1s", "2s"]), isSecret: false), #"["1s", "2s"]"#, "a unit"),
      ("enabled", "perhaps", "perhaps", "true or false"), ("maximumReportsPerMinute", 10001, "10001", "10000"),
      ("budget", 0.5, "0.5", "a whole number"), ("sink", "syslog", "syslog", "file:"),
      ("otherThreads", "some", "some", "lock-holder"), ("stateDirectory", "here", "here", "absolute"),
      ("abortAfter", "100ms", "100ms", "from the threshold"), ("writeDetailFileAfter", true, "true", "or off"),
    ] as [(String, ConfigValue, String, String)])
  func invalidValueIsNamed(key: String, value: ConfigValue, found: String, allowed: String) throws {
    let reader = ConfigReader(provider: InMemoryProvider(values: [AbsoluteConfigKey([key]): value]))
    let error = #expect(throws: StallMonitorError.self) { try StallMonitorConfiguration(config: reader) }
    #expect(error?.code == .invalidConfiguration)
    let message = try #require(error?.message)
    #expect(message.hasPrefix("\(key)=\(found) is invalid; allowed: "))
    #expect(message.contains(allowed))
  }

  @Test func allInvalidValuesAreNamedAtOnce() {
    let reader = ConfigReader(provider: InMemoryProvider(values: ["threshold": "fast", "sink": "syslog"]))
    let error = #expect(throws: StallMonitorError.self) { try StallMonitorConfiguration(config: reader) }
    #expect(error?.message.contains("threshold=fast is invalid") == true)
    #expect(error?.message.contains("sink=syslog is invalid") == true)
  }
}
