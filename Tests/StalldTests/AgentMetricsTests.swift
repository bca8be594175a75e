import Foundation
import LoopEngine
import TestSupport
import Testing

@testable import stalld

/// What the agent counts, as Prometheus reads it.
@Suite(.serialized, .takingTurns) struct AgentMetricsTests {
  @Test func stallIsCountedOnceWithTheSeverityThatItReached() throws {
    let driver = try AgentDriver()
    func id(_ digit: Character) -> String { String(repeating: digit, count: 32) }
    try driver.record([
      // Short: all of it is a warning.
      SampleReport(event: "stall.started", id: id("1")),
      SampleReport(event: "stall.ended", id: id("1"), milliseconds: 500),
      // Long: it has been counted before it ends.
      SampleReport(event: "stall.started", id: id("2")),
      SampleReport(event: "stall.ongoing", id: id("2"), milliseconds: 1000),
    ])
    let early = try driver.text()
    #expect(early.contains("\nstalld_stalls_total{service=\"web\",cause=\"lock\",user=\"0\",severity=\"warn\"} 1\n"))
    #expect(early.contains("\nstalld_stalls_total{service=\"web\",cause=\"lock\",user=\"0\",severity=\"error\"} 1\n"))
    #expect(early.contains("\nstalld_stalled_seconds_total{service=\"web\",cause=\"lock\",user=\"0\"} 0.5\n"))
    try driver.record([
      SampleReport(event: "stall.ongoing", id: id("2"), milliseconds: 2000),
      SampleReport(event: "stall.ended", id: id("2"), milliseconds: 3000),
      // Its process died of it at once.
      SampleReport(event: "stall.fatal", id: id("3"), milliseconds: 250),
      // Four that were not reported.
      SampleReport(event: "stall.suppressed", id: id("4"), cause: "io", milliseconds: 1250, suppressed: 4),
    ])
    let late = try driver.text()
    #expect(late.contains("\nstalld_stalls_total{service=\"web\",cause=\"lock\",user=\"0\",severity=\"warn\"} 1\n"))
    #expect(late.contains("\nstalld_stalls_total{service=\"web\",cause=\"lock\",user=\"0\",severity=\"error\"} 2\n"))
    #expect(late.contains("\nstalld_stalled_seconds_total{service=\"web\",cause=\"lock\",user=\"0\"} 3.75\n"))
    #expect(late.contains("\nstalld_stalls_total{service=\"web\",cause=\"io\",user=\"0\",severity=\"warn\"} 4\n"))
    #expect(late.contains("\nstalld_stalled_seconds_total{service=\"web\",cause=\"io\",user=\"0\"} 1.25\n"))
  }

  @Test func servicesAreBounded() throws {
    let driver = try AgentDriver()
    try driver.record((0..<1200).map { SampleReport(id: "\($0)", service: "made-up-\($0)", cause: "made up") })
    let text = try driver.text()
    let series = text.split(separator: "\n").filter { $0.hasPrefix("stalld_stalls_total{") }
    // Of one user half of them: there is something left for others.
    #expect(series.count == StallCounts.serviceLimit / 2 + 1)
    #expect(text.contains("\nstalld_stalls_total{service=\"other\",cause=\"other\",severity=\"warn\"} 700\n"))
  }

  @Test("all user IDs of a logged-in user share one user's part of the counters")
  func subordinateUsersAreOneUser() throws {
    func peer(_ uid: UInt32, owner: UInt32) -> Peer {
      Peer(pid: 1, uid: uid, gid: uid, cgroup: "/user.slice/user-\(owner).slice/session-1.scope")
    }
    let subordinates = (0..<1200).map { peer(100_000 + $0, owner: 1000) }
    let other = peer(2000, owner: 2000)

    var counts = StallCounts()
    for peer in subordinates + [other] {
      let line = ReportLine(
        bytes: [], event: "stall.ended", isError: false, service: "web", cause: "io", durationMilliseconds: 300,
        stallID: "\(peer.uid)", processID: 1, userID: peer.uid, place: peer.place, lane: peer.namingLane)
      _ = counts.record(line)
    }
    let users = counts.counts.keys.map(\.source.user)
    #expect(users.count { $0.map { $0 >= 100_000 } ?? false } == StallCounts.serviceLimit / 2)
    #expect(users.contains(2000) && users.contains(nil))

    var claims = HostClaims()
    for peer in subordinates + [other] { claims.add(HostClaims.Counts(dropped: 1), of: peer) }
    let clients = claims.counts.keys.map(\.user)
    #expect(clients.count { $0.map { $0 >= 100_000 } ?? false } == HostClaims.limit / 2)
    #expect(clients.contains(2000) && clients.contains(nil))
    #expect(claims.counts[HostClaims.Client()]?.dropped == 700)
  }

  @Test func hostileNumbersHarmNoSum() throws {
    let driver = try AgentDriver()
    try driver.record([
      SampleReport(id: "1", milliseconds: .infinity), SampleReport(id: "2", milliseconds: -1e300),
      SampleReport(id: "3", milliseconds: 1000), SampleReport(event: "stall.suppressed", id: "4", suppressed: .max),
    ])
    let peer = Peer(pid: 1, uid: 0, gid: 0)
    try driver.perform { $0.metrics.linesDroppedByHost(.max, of: peer) }
    try driver.perform { $0.metrics.linesDroppedByHost(.max, of: peer) }
    #expect(
      try driver.text().contains("\nstalld_stalled_seconds_total{service=\"web\",cause=\"lock\",user=\"0\"} 1.619252\n")
    )
  }

  @Test func usersWithManyOpenStallsDoNotRaiseAnothersCounter() {
    var counts = StallCounts()
    func record(_ event: String, _ id: Int, of user: UInt32) {
      _ = counts.record(
        ReportLine(
          bytes: [], event: event, isError: event == "stall.ongoing", service: "web", cause: "lock",
          durationMilliseconds: 1, stallID: "\(id)", processID: 1, userID: user, lane: "\(user) "))
    }
    record("stall.ongoing", 1, of: 1)
    for id in 0..<(2 * StallCounts.openLimit) { record("stall.ongoing", id, of: 2) }
    record("stall.ongoing", 1, of: 1)
    record("stall.ended", 1, of: 1)
    let errors = counts.counts.filter { $0.key.source.user == 1 }.map(\.value.errors)
    #expect(errors == [1], "it is one stall")
  }

  @Test func endedStallsAreNotKept() {
    var stalls = CountedStalls(limit: 10)
    for id in 0..<1000 {
      stalls.insert("\(id)", of: 1)
      #expect(stalls.contains("\(id)", of: 1) && !stalls.contains("\(id)", of: 2))
      let isKnown = stalls.remove("\(id)", of: 1)
      #expect(isKnown && stalls.count == 0)
    }
    for id in 0..<1000 { stalls.insert("\(id)", of: UInt32(id % 7)) }
    #expect(stalls.count <= 10)
  }

  @Test func turnsNeverFallAndAddUp() throws {
    let driver = try AgentDriver()
    var before: [Int] = []
    var turns = 0
    for _ in 0..<20 {
      try driver.perform { _ in usleep(200) }
      let (text, statistics) = try driver.perform { driver in
        let statistics = driver.loop.statistics
        driver.sample.loop = statistics
        return (String(decoding: driver.metrics.text(driver.sample), as: UTF8.self), statistics)
      }
      turns = Int(statistics.turns)
      let buckets = text.split(separator: "\n").filter { $0.hasPrefix("stalld_loop_turn_seconds_bucket") }
        .map { Int($0.split(separator: " ")[1])! }
      #expect(buckets == buckets.sorted(), "cumulative")
      #expect(zip(before, buckets).allSatisfy { $0 <= $1 })
      #expect(text.contains("stalld_loop_turn_seconds_count \(buckets.last!)\n"))
      before = buckets
    }
    // Work that arrives during a turn may be done in it: how many turns there are depends on the machine.
    #expect(before.last! == turns && turns > 1)
  }

  @Test(.enabled(if: Program.installed("promtool") != nil, "promtool is missing (Debian: prometheus)"))
  func promtoolFindsNoProblem() throws {
    let driver = try AgentDriver()
    try driver.record([
      SampleReport(service: "quo\"te\\back\nline {x=\"1\"} 7"), SampleReport(id: "2", service: "größe-日本"),
      SampleReport(event: "stall.ongoing", id: "3", milliseconds: 0.001),
    ])
    let text = try driver.perform { driver in
      driver.metrics.lineRefused(.tooLong)
      driver.metrics.connectionRefused(.notAllowed)
      driver.sample = MetricsSample(
        connections: 3, openStalls: 1, queuedBytes: 10, queuedBytesLimit: 1 << 26,
        outputs: [.init(name: "file:/var/log/stalld/stalls.jsonl", lines: 5, bytes: 6), .init(name: "stdout")],
        symbols: .init(hits: 1, misses: 2, bytes: 3), details: .init(dropped: 4, removed: 5),
        loop: driver.loop.statistics)
      return String(decoding: driver.metrics.text(driver.sample), as: UTF8.self)
    }
    #expect(text.contains("\nstalld_detail_files_dropped_total 4\n"))
    #expect(text.contains("\nstalld_detail_files_removed_total 5\n"))
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "metrics").path
    try Data(text.utf8).write(to: URL(filePath: file))
    let judge = try Program.run("/bin/sh", ["-c", "promtool check metrics <\(file) 2>&1"])
    #expect(judge.status == 0 && judge.output.isEmpty, "\(judge.output)\n\(text)")
    // Each sample belongs to a metric that is described.
    let described = Set(
      text.split(separator: "\n").filter { $0.hasPrefix("# HELP ") }.map { $0.split(separator: " ")[2] })
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      let name = line.prefix { $0 != "{" && $0 != " " }
      let base = ["_bucket", "_sum", "_count"].reduce(String(name)) {
        $0.hasSuffix($1) ? String($0.dropLast($1.count)) : $0
      }
      #expect(described.contains(Substring(base)), "\(line)")
    }
  }
}
