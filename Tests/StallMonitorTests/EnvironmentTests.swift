import StallReport
import Testing

@testable import StallMonitor

struct EnvironmentTests {
  @Test(arguments: [
    ("250ms", Duration.milliseconds(250)), ("1.5s", .milliseconds(1500)), ("2 min", .seconds(120)),
    ("1500us", .microseconds(1500)), (" 1s ", .seconds(1)), ("60min", .seconds(3600)),
    ("1h", .seconds(3600)), ("0.01d", .seconds(864)),
  ])
  func durations(text: String, duration: Duration) {
    #expect(Environment.parseThreshold(text) == duration)
  }

  @Test(arguments: [
    "", "fast", "250", "250 m s", "-1s", "1e3ms", "0s", "999us", "3601s", "2h", "1m", "nan s", "infs", "1.2.3s", "٢s",
    "99999999999999999999s",
  ])
  func notThresholds(text: String) {
    #expect(Environment.parseThreshold(text) == nil)
  }

  @Test func environmentWinsOverCode() {
    var configuration = StallMonitorConfiguration()
    configuration.threshold = .seconds(1)
    configuration.serviceName = "code"
    let problems = Environment([
      "STALLMONITOR_THRESHOLD": "100ms", "STALLMONITOR_SINK": "file:/x", "OTEL_SERVICE_NAME": "otel",
      "STALLMONITOR_ENABLED": "",
    ]).apply(to: &configuration)
    #expect(problems.isEmpty)
    #expect(configuration.threshold == .milliseconds(100))
    #expect(configuration.sink == .file(path: "/x"))
    #expect(configuration.serviceName == "code", "OpenTelemetry's name is a default, ours is an order")
    #expect(configuration.isEnabled, "an empty variable is an unset one")
  }

  /// As Configuration.md writes the limit.
  @Test func anAbortAfterAnHourIsAccepted() {
    var configuration = StallMonitorConfiguration()
    #expect(Environment(["STALLMONITOR_ABORT_AFTER": "1h"]).apply(to: &configuration).isEmpty)
    #expect(configuration.actions == [.abort(after: .seconds(3600))])
  }

  @Test func aBadDurationNamesAllUnits() throws {
    var configuration = StallMonitorConfiguration()
    let problem = try #require(Environment(["STALLMONITOR_ABORT_AFTER": "1m"]).apply(to: &configuration).first)
    for unit in DurationText.units {
      #expect(problem.allowed.contains(try Regex("\\b\(unit.name)\\b")), "\(unit.name)")
    }
  }

  @Test func allMistakesAreFoundAtOnce() {
    var configuration = StallMonitorConfiguration()
    let problems = Environment([
      "STALLMONITOR_THRESHOLD": "fast", "STALLMONITOR_SINK": "nowhere", "STALLMONITOR_ENABLED": "maybe",
    ]).apply(to: &configuration)
    #expect(
      problems.map(\.variable).sorted() == ["STALLMONITOR_ENABLED", "STALLMONITOR_SINK", "STALLMONITOR_THRESHOLD"])
  }

  @Test("an invalid value does not change its setting", arguments: Environment.known)
  func invalidValueChangesNothing(variable: String) {
    // Any text is a service's name or version.
    guard !variable.hasPrefix("STALLMONITOR_SERVICE_") else { return }
    var configuration = StallMonitorConfiguration()
    configuration.stateDirectory = "/run/code"
    let before = configuration
    #expect(Environment([variable: "neither this nor that"]).apply(to: &configuration).map(\.variable) == [variable])
    #expect(configuration == before)
  }

  @Test func theVersionHasAVariable() {
    var configuration = StallMonitorConfiguration()
    let environment = Environment([
      "STALLMONITOR_SERVICE_VERSION": "2.0", "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.2",
    ])
    #expect(environment.apply(to: &configuration).isEmpty)
    #expect(configuration.serviceVersion == "2.0")
    #expect(environment.notes(replacedKeys: [:]).isEmpty)
  }

  @Test("a program with more rights than its caller trusts none of the caller's variables but the service manager's")
  func programWithMoreRights() {
    var configuration = StallMonitorConfiguration()
    let before = configuration
    let environment = Environment(
      [
        "STALLMONITOR_SINK": "file:/etc/x", "STALLMONITOR_ENABLED": "perhaps", "STATE_DIRECTORY": "/x",
        "OTEL_SERVICE_NAME": "$(x)", "WATCHDOG_USEC": "1",
      ], hasMoreRights: true)
    #expect(environment.apply(to: &configuration).isEmpty)
    #expect(configuration == before)
    #expect(environment.serviceStateDirectory == nil)
    #expect(environment.variables == ["WATCHDOG_USEC": "1"])
    let notes = environment.notes(replacedKeys: [:])
    #expect(notes.map { $0.prefix(while: { $0 != " " }) } == ["STALLMONITOR_ENABLED", "STALLMONITOR_SINK"])
    #expect(notes.allSatisfy { $0.contains("more rights than who started it") })
  }

  // MARK: Earlier names

  static let replacements = MonitorSetting.all.flatMap { setting in setting.earlierNames.map { ($0, setting.name) } }

  private static let values = [
    "watchesTaskPool": ("false", "true"), "maximumReportsPerMinute": ("7", "8"),
    "resampleInterval": ("1s", "2s"), "otherThreads": ("all", "none"),
    "notifiesSystemdWatchdog": ("true", "false"), "writeDetailFileAfter": ("1s", "2s"),
  ]

  private func configured(_ variables: [String: String]) -> StallMonitorConfiguration {
    var configuration = StallMonitorConfiguration()
    #expect(Environment(variables).apply(to: &configuration).isEmpty)
    return configuration
  }

  @Test(arguments: replacements)
  func earlierNameIsRead(earlier: String, name: String) throws {
    let (variable, old) = (MonitorSetting.variable(of: name), MonitorSetting.variable(of: earlier))
    let value = try #require(Self.values[name]).0
    #expect(configured([old: value]) == configured([variable: value]))
    #expect(configured([old: value]) != StallMonitorConfiguration())
    #expect(Environment([old: value]).notes(replacedKeys: [:]).isEmpty)
    #expect(
      configured([variable: "", old: value]) == configured([variable: value]), "an empty variable is an unset one")
  }

  @Test(arguments: replacements)
  func newNameWinsAndThisIsLoggedOnce(earlier: String, name: String) throws {
    let (variable, old) = (MonitorSetting.variable(of: name), MonitorSetting.variable(of: earlier))
    let values = try #require(Self.values[name])
    let both = [variable: values.1, old: values.0]
    #expect(configured(both) == configured([variable: values.1]))
    // A `ConfigReader` may have read the same variables.
    for replacedKeys in [[:], [earlier: name]] {
      let notes = Environment(both).notes(replacedKeys: replacedKeys)
      #expect(notes == ["\(old) is ignored: \(variable), which replaces it, is set, too"])
    }
    let notes = Environment([:]).notes(replacedKeys: [earlier: name])
    #expect(notes == ["the key \(earlier) is ignored: \(name), which replaces it, is set, too"])
    // A value that is not read is not an error.
    #expect(configured([variable: values.1, old: "neither"]) == configured([variable: values.1]))
  }

  @Test func badValueInCodeIsAnError() {
    var configuration = StallMonitorConfiguration()
    configuration.threshold = .zero
    #expect(throws: StallMonitorError.self) { try StallMonitor.start(configuration, environment: Environment([:])) }
  }
}
