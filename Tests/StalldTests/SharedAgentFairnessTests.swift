import Foundation
import TestSupport
import Testing

extension SharedAgentTests {
  /// What one user does is no other user's trouble: not its time, not its history, not its numbers.
  @Suite struct Fairness {
    private let shared = SharedMachine.current!
    /// A small history, so that it does not take minutes to push it out.
    private static let smallHistory =
      "outputs: [{type: file, path: \(SharedMachine.log)/stalls.jsonl, max_size: 8MiB, keep: 2}]\ndetails: {max_size: 4MiB}\n"

    /// alice's waits, in milliseconds: without other users, and during the attack.
    private func waits(during attack: () throws -> [SharedMachine.Client]) throws -> (
      calm: [String: Any], attacked: [String: Any], host: SharedMachine.Client
    ) {
      let calm = try shared.startHost().client
      try calm.advance(by: 300)
      let before = try calm.stop()
      let observer = try shared.start(.root, "observe")
      let hostile = try attack()
      // It has begun.
      for client in hostile { try waitUntil { client.count > 0 } }
      let host = try shared.startHost().client
      try waitUntil { host.count >= 400 }
      let words = try host.stop()
      for client in hostile { try client.stop() }
      let seen = try SharedMachine.Observation(observer.stop())
      try shared.expectMemoryLimit(seen)
      print("alice's waits in milliseconds:")
      for (when, words) in [("undisturbed", before), ("meanwhile", words)] {
        print(
          "  \(when): median \(words["median"]!), p99 \(words["p99"]!), once connected \(words["settled_p99"]!); connecting took \(words["connecting"]!)"
        )
      }
      return (before, words, host)
    }

    private func expectServed(_ waits: (calm: [String: Any], attacked: [String: Any], host: SharedMachine.Client))
      throws
    {
      let (calm, attacked) = (
        try #require(waits.calm["p99"] as? Double), try #require(waits.attacked["p99"] as? Double)
      )
      // The clients themselves take the machine's processors.
      #expect(attacked <= max(10 * calm, 1000), "alice waits for mallory")
      #expect(waits.attacked["kept"] as? Int == 0, "alice was not acknowledged")
      let result = try shared.compare(waits.host)
      #expect(result.missing == 0, "acknowledged and in no file")
    }

    /// The other unit may be the same user's: in containers all are root.
    @Test(
      "100 connections that send as fast as they can", .onlyInLongForm("test-shared-agent"),
      arguments: [SharedMachine.User.mallory, .alice])
    func manyConnections(user: SharedMachine.User) throws {
      try shared.startAgent()
      try expectServed(
        waits { [try shared.start(user, "flood", "\(shared.nextFirst()) --connections 100 --filler 20")] })
    }

    @Test("the same in ten units, with the longest lines", .onlyInLongForm("test-shared-agent"))
    func manyUnits() throws {
      try shared.startAgent()
      try expectServed(
        waits {
          try (0..<10).map { _ in
            try shared.start(.mallory, "flood", "\(shared.nextFirst()) --connections 20 --filler 110")
          }
        })
    }

    /// The attackers and alice share the machine's processors, and the agent has its own part of them alone.
    ///
    /// So alice's waits are also compared with those beside as many processes that only take processor time.
    private func expectServed(
      _ waits: (calm: [String: Any], attacked: [String: Any], host: SharedMachine.Client), beside busy: [String: Any]
    ) throws {
      try expectServed(waits)
      let key = "settled_p99"
      let (calm, busy, attacked) = (
        try #require(waits.calm[key] as? Double), try #require(busy[key] as? Double),
        try #require(waits.attacked[key] as? Double)
      )
      print("alice's p99 under attack: \(attacked / calm) x undisturbed, \(attacked / busy) x beside busy processes")
      #expect(attacked <= max(10 * max(calm, busy), 100), "alice waits for mallory")
      // As long as the listening socket's queue takes to be accepted.
      #expect(try #require(waits.attacked["connecting"] as? Double) < 10_000, "alice is not accepted")
    }

    @Test(
      "as many connections as possible, opened and closed as fast as possible", .onlyInLongForm("test-shared-agent"))
    func allConnections() throws {
      try shared.startAgent()
      let busy = try waits { try (0..<3).map { _ in try shared.start(.mallory, "spin") } }.attacked
      var holders: [SharedMachine.Client] = []
      let waits = try waits {
        holders = try (0..<2).map { _ in try shared.start(.mallory, "hold") }
        // Until hardly any more are accepted.
        var (latest, now) = (0, 0)
        repeat {
          usleep(500_000)
          (latest, now) = (now, holders.reduce(0) { $0 + $1.count })
        } while now == 0 || now > latest + latest / 10
        print("mallory holds \(now) connections")
        return [try shared.start(.mallory, "storm")]
      }
      try expectServed(waits, beside: busy)
      // Others than alice are served as well.
      let root = try shared.startHost(.root).client
      try root.advance(by: 20)
      #expect(try root.stop()["kept"] as? Int == 0)
      try holders.forEach { try $0.stop() }
    }

    @Test("400 connections that fill the files, and detail files")
    func history() throws {
      try shared.startAgent(Self.smallHistory)
      let host = try shared.startHost(every: 5).client
      try host.advance(by: 300)
      let begun = SharedMachine.now
      let hostile = try shared.start(.mallory, "flood", "\(shared.nextFirst()) --connections 400 --filler 110")
      // Much more than the files may have, or as long as that would take.
      _ = eventually(within: 10) { hostile.count > 8000 }
      let words = try hostile.stop()
      try host.advance(by: 20)
      try host.stop()
      let result = try shared.compare(host)
      print(
        "history: mallory was acknowledged \(words["acknowledged"] ?? 0) lines in \(SharedMachine.now - begun) s; alice's \(result)"
      )
      #expect(result.missing == 0, "alice's history was pushed out")
    }

    @Test("one user's reports do not displace the known identities of another's", .onlyInLongForm("test-shared-agent"))
    func memoryOfReports() throws {
      try shared.startAgent()
      let first = shared.nextFirst()
      func deliver() throws -> SharedMachine.Client {
        let host = try shared.start(.alice, "report", "\(first) --count 50 --every 1 --stay")
        try waitUntil { host.count >= 50 }
        return host
      }
      try deliver().stop()
      let hostile = try shared.start(.mallory, "flood", "\(shared.nextFirst()) --connections 100")
      // More than are known at a time, or as long as that would take.
      _ = eventually(within: 5) { hostile.count > 70_000 }
      try hostile.stop()
      // As a service does that has received no acknowledgement.
      let again = try deliver()
      try again.stop()
      let result = try shared.compare(again)
      print("memory of reports:", result)
      #expect(result.missing == 0)
      #expect(result.doubled == 0, "alice's reports were forgotten, and are written twice")
    }

    @Test("open stalls of one user leave space for another's", .onlyInLongForm("test-shared-agent"))
    func openStalls() throws {
      try shared.startAgent("limits: {memory: 8MiB}\n")
      // A quarter of the memory is for open stalls, and 128 KiB of one process; each has more.
      let hostile = try (0..<20).map { _ in
        try shared.start(
          .mallory, "report", "\(shared.nextFirst()) --event stall.started --filler 1 --count 400 --every 1 --stay")
      }
      for client in hostile { try waitUntil { client.count >= 400 } }
      let (host, first) = try shared.startHost(every: 1, "--event stall.started --count 1 --stay")
      try waitUntil { host.count == 1 }
      try shared.shell("systemctl kill --signal KILL \(host.name)")
      let id = String(format: "%016x%016x", first, 1)
      #expect(
        try eventually(within: 10) {
          try shared.shell("cat \(SharedMachine.log)/stalls.jsonl* | grep -a \(id) | grep -ac stall.fatal || true")
            .hasPrefix("1")
        },
        "the end of alice's process in a stall is not told")
      for client in hostile { try client.stop() }
    }

    @Test("another user's stall in a detail message, and very many of them", .onlyInLongForm("test-shared-agent"))
    func details() throws {
      try shared.startAgent(Self.smallHistory)
      let id = String(format: "%032x", shared.nextFirst())
      func detail(_ id: String, _ words: String, _ length: Int = 0) -> String {
        #"{"detail":{"id":"\#(id)","words":"\#(words)","filler":"\#(String(repeating: "x", count: length))"}}"# + "\n"
      }
      func kept() throws -> Int {
        Int(
          try shared.shell("grep -rl 'what alice has to say' /var/lib/stalld | wc -l").trimmingCharacters(
            in: .whitespacesAndNewlines)) ?? 0
      }
      #expect(try shared.say(detail(id, "what alice has to say"), as: .alice)["acknowledged"] as? Int == 1)
      try waitUntil { try kept() == 1 }
      _ = try shared.say(detail(id, "what mallory has to say"), as: .mallory)
      // No event in order shows when a file is written.
      usleep(500_000)
      #expect(try kept() == 1, "mallory has overwritten alice's detail file")
      #expect(try !shared.shell("cat /var/lib/stalld/stalls/\(id).json 2>/dev/null || true").contains("mallory"))
      // Four times what there may be.
      for part in 0..<16 {
        let lines = (0..<5).map { detail(String(format: "%032x", 0xdead0000 + part * 5 + $0), "much", 200_000) }
          .joined()
        _ = try shared.say(lines, as: .mallory)
      }
      usleep(500_000)
      #expect(try kept() == 1, "mallory has pushed alice's detail file out")
    }

    @Test("lines of very many keys, and deep ones", .onlyInLongForm("test-shared-agent"))
    func keys() throws {
      try shared.startAgent("limits: {line_bytes: 1MiB}\n")
      let many = (0..<64_000).map { #""k\#(String($0, radix: 36))":0"# }.joined(separator: ",")
      let long = "{\(many)}"
      func line(_ place: String) -> String {
        let report = AgentClient.report(id: 2)
        switch place {
        case "top": return "{\(many),\(report.dropFirst())"
        case "evidence": return report.replacing(#""evidence":{}"#, with: #""evidence":\#(long)"#)
        case "hello": return #"{"hello":{"protocol":1,"service":{"name":"web"},"more":\#(long)}}"#
        case "detail": return #"{"detail":{"id":"\#(String(repeating: "a", count: 32))","more":\#(long)}}"#
        default:
          return report.replacing(#""evidence":{}"#, with: #""evidence":\#(String(repeating: "[", count: 200_000))"#)
        }
      }
      for place in ["top", "evidence", "hello", "detail", "deep"] {
        let answer = try shared.say(String(repeating: line(place) + "\n", count: 4), as: .mallory)
        let seconds = try #require(answer["seconds"] as? Double)
        print("64 000 keys (\(place)): \(seconds / 4) s a line, \(answer["errors"] ?? "")")
        #expect(seconds / 4 < 0.5, "\(place)")
      }
    }

    @Test("lines of very many keys over 80 connections", .onlyInLongForm("test-shared-agent"))
    func keysOfMany() throws {
      try shared.startAgent()
      try expectServed(
        waits { [try shared.start(.mallory, "flood", "\(shared.nextFirst()) --connections 80 --keys 25000 --lines 1")] }
      )
      #expect(
        try shared.machine.property("NRestarts", of: "stalld") == "0", "the agent was ended by systemd's watchdog")
    }

    @Test("impossible numbers, and another service's counters", .onlyInLongForm("test-shared-agent"))
    func values() throws {
      try shared.startAgent()
      let host = try shared.startHost(every: 5).client
      try host.advance(by: 100)
      try host.stop()
      let before = try shared.metrics().filter { $0.key.contains("alice-web") }
      #expect(!before.isEmpty)
      func report(_ number: Int, _ old: String = "", _ new: String = "") -> String {
        // Of the cause that alice's reports have.
        AgentClient.report(id: 0x700000 + number, service: "alice-web", after: 0)
          .replacing(#""cause":"lock""#, with: #""cause":"sleep""#).replacing(old, with: new)
      }
      let year = #""@timestamp":"20"#
      let wrong = [
        (#""duration_ms":312.482"#, #""duration_ms":1e300"#), (#""duration_ms":312.482"#, #""duration_ms":-5"#),
        (#""duration_ms":312.482"#, #""duration_ms":40000000000"#), (#""threshold_ms":250"#, #""threshold_ms":-1"#),
        (#""threshold_ms":250"#, #""threshold_ms":1e99"#), (#""samples":1"#, #""samples":-1"#),
        (year, #""@timestamp":"99"#), (year, #""@timestamp":"00"#),
        (#""schema":"1.0""#, #""schema":"1.0","dropped":-9"#),
        (#""schema":"1.0""#, #""schema":"1.0","dropped":1000000000000000"#),
        (#""samples":1"#, #""samples":1,"suppressed":{"count":-4,"total_ms":1,"longest_ms":1,"window_ms":1}"#),
      ]
      for (number, (old, new)) in wrong.enumerated() {
        let line = report(number, old, new)
        #expect(line.contains(new))
        let answer = try shared.say(line + "\n", as: .mallory)
        #expect((answer["errors"] as? [String])?.isEmpty == false, "it takes \(new)")
      }
      _ = try shared.say((100..<200).map { report($0) + "\n" }.joined(), as: .mallory)
      _ = try shared.say(
        #"{"hello":{"protocol":1,"service":{"name":"alice-web"},"spooled":1000000000000000}}"# + "\n", as: .mallory)
      usleep(300_000)
      let after = try shared.metrics()
      for (sample, value) in before { #expect(after[sample] == value, "mallory has raised \(sample)") }
      for (sample, value) in after { #expect(value.isFinite && value >= 0 && value < 1e13, "\(sample)") }
      let files = try shared.shell("cat \(SharedMachine.log)/stalls.jsonl")
      #expect(
        !files.contains(#""@timestamp":"99"#) && !files.contains("1e300") && !files.contains(":-"),
        "a value that cannot be is in the file")
    }
  }
}
