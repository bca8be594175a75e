import Foundation
import TestSupport
import Testing

@testable import StallMonitor

/// What cannot be used is an error in words, and never a trap.
struct BadInputTests {
  @Test(arguments: [
    Duration.zero, .nanoseconds(1), .microseconds(999), .seconds(-1), .seconds(3601), .seconds(Int64.max),
    .seconds(Int64.min),
  ])
  func thresholdMustBeOneThatCanBeKept(threshold: Duration) {
    var configuration = StallMonitorConfiguration()
    configuration.threshold = threshold
    expectError(configuration, naming: "threshold", "from 1 ms to 1 h")
  }

  @Test func limitsAreNamedByTheirProperties() {
    var configuration = StallMonitorConfiguration()
    configuration.maximumReportsPerMinute = -1
    expectError(configuration, naming: "maximumReportsPerMinute", "0 to 10000")
    configuration = StallMonitorConfiguration()
    configuration.resampleInterval = .milliseconds(9)
    expectError(configuration, naming: "resampleInterval", "from 10 ms to 1 min")
  }

  @Test(arguments: [
    (StallAction.abort(after: .milliseconds(100)), "after the threshold"),
    (.abort(after: .zero), "after the threshold"), (.abort(after: .seconds(3601)), "1 h"),
    (.call(after: .seconds(-1)) { _ in }, "0 s to 1 h"), (.writeDetailFile(after: .seconds(Int64.max)), "1 h"),
  ])
  func actionMustHaveItsTime(action: StallAction, allowed: String) {
    var configuration = StallMonitorConfiguration()
    configuration.actions = [action]
    expectError(configuration, naming: "actions", allowed)
  }

  @Test func placesMustBeNamed() {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: "")
    expectError(configuration, naming: "sink", ".file with a path")
    configuration = StallMonitorConfiguration()
    configuration.stateDirectory = "here"
    expectError(configuration, naming: "stateDirectory", "absolute")
  }

  /// What the operator chose instead only leaves the service unwatched.
  @Test(arguments: [
    ("/nowhere/x.jsonl", "No such file or directory; create the directory /nowhere, or choose another file"),
    ("/tmp", "Is a directory; choose a file in it, such as file:/tmp/stalls.jsonl"),
  ])
  func sinkInCodeMustBeWritable(path: String, reason: String) {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: path)
    let error = #expect(throws: StallMonitorError.self) {
      try StallMonitor.start(configuration, environment: Environment([:]))
    }
    #expect(error?.code == .sinkCannotBeOpened)
    #expect(
      error?.description.contains(
        "cannot open the sink file:\(path): \(reason); allowed: \(StallMonitorConfiguration.Sink.allowed)") == true)
  }

  /// A service that runs and is not watched can say why.
  @Test(arguments: [
    (["STALLMONITOR_THRESHOLD": "fast"], "STALLMONITOR_THRESHOLD=fast is invalid; allowed: "),
    (["STALLMONITOR_THRESHOLD": "fast", "STALLMONITOR_SINK": "x"], "STALLMONITOR_SINK=x is invalid; allowed: "),
    (["STALLMONITOR_ENABLED": "no"], "STALLMONITOR_ENABLED=no disables the monitor"),
    (
      ["STALLMONITOR_SINK": "file:/nowhere/x"],
      "cannot open STALLMONITOR_SINK=file:/nowhere/x: No such file or directory; create"
    ),
  ])
  func reasonWhyNothingIsWatched(variables: [String: String], reason: String) throws {
    let monitor = try StallMonitor.start(StallMonitorConfiguration(), environment: Environment(variables))
    #expect(!monitor.isWatching)
    #expect(monitor.notWatchingReason?.contains(reason) == true, "\(monitor.notWatchingReason ?? "")")
  }

  @Test func aMonitorThatIsDisabledInCodeSaysSo() throws {
    var configuration = StallMonitorConfiguration()
    configuration.isEnabled = false
    let monitor = try StallMonitor.start(configuration, environment: Environment([:]))
    #expect(monitor.notWatchingReason == "StallMonitorConfiguration.isEnabled is false")
  }

  private func expectError(_ configuration: StallMonitorConfiguration, naming key: String, _ allowed: String) {
    let error = #expect(throws: StallMonitorError.self) {
      try StallMonitor.start(configuration, environment: Environment([:]))
    }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.message.hasPrefix("StallMonitorConfiguration.\(key) is ") == true)
    #expect(error?.description.contains(allowed) == true)
  }

  @Test func anOperatorsAbortWins() throws {
    var configuration = StallMonitorConfiguration()
    configuration.actions = [.abort(after: .seconds(30)), .writeDetailFile(after: .seconds(1))]
    var changed = configuration
    #expect(Environment(["STALLMONITOR_ABORT_AFTER": "5s"]).apply(to: &changed).isEmpty)
    #expect(changed.actions == [.writeDetailFile(after: .seconds(1)), .abort(after: .seconds(5))])
    changed = configuration
    #expect(
      Environment(["STALLMONITOR_ABORT_AFTER": "OFF", "STALLMONITOR_DETAIL_AFTER": "off"]).apply(to: &changed).isEmpty)
    #expect(changed.actions.isEmpty)
  }

  @Test(arguments: [
    (["STALLMONITOR_ABORT_AFTER": "soon"], "STALLMONITOR_ABORT_AFTER=soon is invalid", "30s; or off"),
    (["STALLMONITOR_ABORT_AFTER": "61min"], "STALLMONITOR_ABORT_AFTER=61min", "up to 1h"),
    (["STALLMONITOR_ABORT_AFTER": "100ms"], "STALLMONITOR_ABORT_AFTER=100ms", "from the threshold (0.25 seconds)"),
    (["STALLMONITOR_THRESHOLD": "1min"], "STALLMONITOR_THRESHOLD=1min", "abort after 30.0 seconds"),
    (["STALLMONITOR_DETAIL_AFTER": "-1s"], "STALLMONITOR_DETAIL_AFTER=-1s", "or off"),
    (["STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG": "2"], "STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG=2", "true or false"),
    (["STALLMONITOR_SYSTEMD_WATCHDOG": "2"], "STALLMONITOR_SYSTEMD_WATCHDOG=2", "true or false"),
  ])
  func invalidVariableIsLogged(variables: [String: String], name: String, allowed: String) throws {
    var configuration = StallMonitorConfiguration()
    configuration.actions = [.abort(after: .seconds(30))]
    let problems = Environment(variables).apply(to: &configuration)
    #expect(problems.count == 1)
    let text = try #require(problems.first).description
    #expect(text.contains(name) && text.contains(allowed))
  }

  /// An abort in code with a time below the threshold: it is thrown to the service, which prints
  /// it.
  @Test func earlyAbortInCodeIsAnError() throws {
    let victim = try Victim.run("compute", environment: ["VICTIM_ACTIONS": "early"])
    #expect(victim.status == 3)
    #expect(victim.talk.contains("actions is abort after 0.1 seconds; allowed: after the threshold"))
  }

  @Test func startingTwiceIsAnErrorFromAnyThread() throws {
    let victim = try Victim.run("started-again")
    #expect(victim.status == 0)
    for place in ["twice", "elsewhere"] {
      #expect(victim.talk.contains("\(place)=another StallMonitor is active in this process"))
    }
    #expect(victim.talk.contains("after-stop=true"))
  }
}
