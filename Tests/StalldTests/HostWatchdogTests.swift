import Foundation
import TestSupport
import Testing

/// What a watched service sends to systemd's watchdog, as any service manager sees it.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "health has to be reported within its time"),
  .timeLimit(.minutes(2)))
struct HostWatchdogTests {
  /// A service and its notifications.
  struct Life {
    /// What was said, and when (`CLOCK_MONOTONIC`, in milliseconds).
    var messages: [(text: String, time: Double)] = []
    var facts: [String: Double] = [:]
    var talk = ""
    var status: Int32 = -1

    func count(of text: String, from: Double = 0, to: Double = .infinity) -> Int {
      messages.count { $0.text == text && $0.time >= from && $0.time <= to }
    }
  }

  /// The notifications come while the loop waits and turns, and not while it is blocked.
  ///
  /// The time allows for a reader who is late: on a busy machine this test is one.
  @Test(arguments: NotifySocket.Name.allCases)
  func healthIsReportedExceptInAStall(name: NotifySocket.Name) throws {
    let life = try live("stall-in-life", 2200, interval: "200000", name)
    #expect(life.status == 0)
    let (from, to) = (try #require(life.facts["from"]), try #require(life.facts["to"]))
    #expect(life.count(of: "WATCHDOG=1", to: from) > 0)
    #expect(life.count(of: "WATCHDOG=1", from: from + 1700, to: to - 1) == 0)
    #expect(life.count(of: "WATCHDOG=1", from: to) > 0)
    #expect(life.messages.allSatisfy { $0.text == "WATCHDOG=1" })
  }

  @Test func slowWorkThatIsExpectedIsHealthy() throws {
    let life = try live("expected-in-life", 2000, interval: "200000")
    let (from, to) = (try #require(life.facts["from"]), try #require(life.facts["to"]))
    #expect(life.count(of: "WATCHDOG=1", from: from + 1000, to: to) > 0)
  }

  @Test func nothingIsReportedAfterTheWatchHasEnded() throws {
    let life = try live("stopped-in-life", 1800, interval: "200000")
    let stopped = try #require(life.facts["stopped"])
    #expect(life.count(of: "WATCHDOG=1", to: stopped + 1500) > 0)
    #expect(life.count(of: "WATCHDOG=1", from: stopped + 1500) == 0)
  }

  /// An idle service pays one wake-up for each notification, and none when nobody asks.
  @Test(arguments: ["200000", ""])
  func idleServiceWakesForNothingElse(interval: String) throws {
    let life = try live("idle", 1000, interval: interval)
    let wakeUps = try #require(life.facts["wakeups"])
    #expect(wakeUps <= Double(life.messages.count))
    #expect((wakeUps > 0) == !interval.isEmpty)
  }

  @Test func nothingIsSentWithoutAServiceManager() throws {
    let life = try live("idle", 500, interval: "200000", environment: ["STALLMONITOR_SYSTEMD_WATCHDOG": ""])
    #expect(life.messages.isEmpty)
    #expect(life.talk.split(separator: "\n").allSatisfy { $0.hasPrefix("victim: ") })
  }

  /// systemd would kill a service that sends no notifications.
  ///
  /// An unwatched service must not be killed.
  @Test(arguments: [
    ("STALLMONITOR_ENABLED", "false"), ("STALLMONITOR_THRESHOLD", "fast"), ("STALLMONITOR_SINK", "file:/nowhere/x"),
    ("STALLMONITOR_SYSTEMD_WATCHDOG", "perhaps"),
  ])
  func unwatchedServiceSwitchesTheWatchdogOff(variable: String, value: String) throws {
    let life = try live("compute", 10, interval: "200000", environment: [variable: value])
    #expect(life.status == 0)
    #expect(life.messages.map(\.text) == ["WATCHDOG_USEC=0"])
    #expect(life.talk.contains("systemd's watchdog is switched off for this service"))
  }

  /// An invalid variable is logged once, and the service is watched.
  @Test(arguments: [
    ("WATCHDOG_USEC", "soon", "microseconds"), ("WATCHDOG_USEC", "0", "microseconds"),
    ("WATCHDOG_PID", "1", "WATCHDOG_PID=1"),
    ("NOTIFY_SOCKET", "", "NOTIFY_SOCKET"), ("NOTIFY_SOCKET", "vsock:2:1234", "vsock:2:1234"),
    ("NOTIFY_SOCKET", NotificationTests.longerThanAnySocketName, "107"),
    ("NOTIFY_SOCKET", "/nonexistent/notify", "No such file"),
    ("NOTIFY_SOCKET", "@nobody-listens-here", "Connection refused"),
  ])
  func invalidVariableIsLogged(variable: String, value: String, word: String) throws {
    let life = try live("compute", 200, interval: "200000", environment: [variable: value])
    #expect(life.status == 0)
    #expect(life.talk.contains("victim: watching=true"))
    let said = life.talk.split(separator: "\n").filter { !$0.hasPrefix("victim: ") }
    #expect(said.count == 1)
    #expect(said.first?.contains(word) == true)
    #expect(life.messages.isEmpty)
  }

  /// A service manager that reads nothing does not hold the watchdog up.
  @Test func fullSocketIsNotWaitedFor() throws {
    let manager = try NotifySocket(.abstract)
    let life = try live("stall-in-life", 300, interval: "2000", readingFrom: nil, address: manager.address)
    #expect(life.status == 0)
    #expect(life.talk.contains("Resource temporarily unavailable"))
  }

  private func live(
    _ scenario: String, _ milliseconds: Int, interval: String, _ name: NotifySocket.Name = .abstract,
    environment: [String: String] = [:]
  ) throws -> Life {
    let manager = try NotifySocket(name)
    return try live(
      scenario, milliseconds, interval: interval, readingFrom: manager, address: manager.address,
      environment: environment)
  }

  private func live(
    _ scenario: String, _ milliseconds: Int, interval: String, readingFrom manager: NotifySocket?, address: String,
    environment: [String: String] = [:]
  ) throws -> Life {
    let scratch = try ScratchDirectory()
    let talk = Pipe()
    let process = try Program.start(
      Program.built("StallVictim", "debug").path, [scenario, String(milliseconds)],
      environment: [
        "NOTIFY_SOCKET": address, "WATCHDOG_USEC": interval, "STALLMONITOR_SYSTEMD_WATCHDOG": "true",
        "STALLMONITOR_SINK": "file:\(scratch.url.path)/lines",
      ].merging(environment) { $1 }, errors: talk)
    var life = Life()
    while process.isRunning {
      guard let manager else {
        usleep(10_000)
        continue
      }
      if let text = manager.next(within: 50) { life.messages.append((text, Self.now())) }
    }
    while let text = manager?.next(within: 0) { life.messages.append((text, Self.now())) }
    process.waitUntilExit()
    life.status = process.terminationStatus
    life.talk = String(decoding: talk.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    for line in life.talk.split(separator: "\n") {
      let words = line.dropFirst("victim: ".count).split(separator: "=")
      if words.count == 2, let number = Double(words[1]) { life.facts[String(words[0])] = number }
    }
    return life
  }

  private static func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
  }
}
