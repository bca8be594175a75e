import Foundation
import StallReport
import TestSupport
import Testing

extension WatchedHosts {
  /// The same stall is reported once; its last line and its file have everything else about it.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "repetitions are counted within a window of time"))
  struct RepeatedStallTests {
    @Test func theSameStallIsReportedOnceAndThenCounted() throws {
      let victim = try Victim.run("repeated", milliseconds: 500)
      #expect(victim.reports("stall.started").count == 1)
      #expect(victim.reports("stall.ended").count == 1)
      let summary = try #require(victim.reports("stall.suppressed").first)
      #expect(victim.reports("stall.suppressed").count == 1)
      #expect(summary["stall", "suppressed", "count"] as? Int == 4)
      #expect(summary.duration >= 1950)
      #expect(summary.duration == summary["stall", "suppressed", "total_ms"] as? Double)
      let told = try #require(victim.reports("stall.ended").first)
      #expect(summary.id == told.id)
      #expect(summary.culprit == told.culprit)
      #expect(summary["stall", "fingerprint"] as? String == told["stall", "fingerprint"] as? String)
    }

    /// Who waits in the same function on another way is another stall to a team, though the fingerprint is one.
    @Test func eachWayToAFunctionIsReportedOnce() throws {
      let victim = try Victim.run("two-ways", milliseconds: 400, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      let ended = victim.reports("stall.ended")
      #expect(ended.count == 2)
      #expect(Set(ended.map(\.culprit)).count == 1)
      #expect(Set(ended.compactMap { $0["stall", "fingerprint"] as? String }).count == 1)
      let summaries = victim.reports("stall.suppressed")
      #expect(summaries.compactMap { $0["stall", "suppressed", "count"] as? Int } == [1, 1])
      #expect(Set(summaries.map(\.id)) == Set(ended.map(\.id)))
    }

    @Test func withoutAWindowEachIsReported() throws {
      let victim = try Victim.run(
        "repeated", milliseconds: 500, environment: ["STALLMONITOR_REPEAT_WINDOW": "0s"])
      #expect(victim.reports("stall.ended").count == 5)
      #expect(victim.reports("stall.suppressed").isEmpty)
    }

    @Test func summaryComesWhenTheWindowEnds() throws {
      let victim = try Victim.run(
        "repeated", milliseconds: 500, environment: ["STALLMONITOR_REPEAT_WINDOW": "1100ms"])
      // All five are accounted for, in more than one summary, or reported again after a quiet
      // window.
      let counted = victim.reports("stall.suppressed").compactMap { $0["stall", "suppressed", "count"] as? Int }
      #expect(victim.reports("stall.ended").count + counted.reduce(0, +) == 5)
      #expect(!counted.isEmpty)
      let last = try #require(victim.reports.last)
      let window = try #require(
        victim.reports("stall.suppressed").first?["stall", "suppressed", "window_ms"] as? Double)
      #expect(window >= 1000)
      #expect(last["stall", "sequence"] as? Int == victim.reports.count)
    }

    /// The shorter one ends before a `stall.ongoing` is due at which it is long enough.
    @Test("a repetition that is much longer than the reported stall is reported", arguments: [1900, 3500])
    func muchLongerRepetitionIsReported(milliseconds: Int) throws {
      let victim = try Victim.run("repeated-and-longer", milliseconds: milliseconds)
      #expect(victim.reports("stall.ended").count == 2)
      #expect(milliseconds < 2000 || victim.reports("stall.ongoing").count >= 1)
      #expect((victim.reports("stall.ended").last?.duration ?? 0) > Double(milliseconds) - 100)
    }

    @Test func budgetLimitsWhatIsReportedAndNothingIsLostFromTheCounts() throws {
      let victim = try Victim.run("three-kinds", milliseconds: 600, environment: ["STALLMONITOR_BUDGET": "1"])
      #expect(victim.reports("stall.ended").count == 1)
      let summary = try #require(victim.reports("stall.suppressed").first)
      #expect(summary["stall", "suppressed", "count"] as? Int == 2)
      #expect(summary["stall", "suppressed", "over_budget"] as? Bool == true)
      #expect(summary.culprit == "")
    }

    @Test(arguments: [
      ("STALLMONITOR_REPEAT_WINDOW", "30"), ("STALLMONITOR_BUDGET", "-1"), ("STALLMONITOR_BUDGET", "many"),
    ])
    func valueThatCannotBeUsedIsNamed(variable: String, value: String) throws {
      let victim = try Victim.run("compute", environment: [variable: value])
      #expect(victim.facts["watching"] == "false")
      #expect(victim.talk.contains("\(variable)=\(value) is invalid; allowed: "))
    }

    @Test(arguments: Victim.Build.allCases)
    func culpritAndPathAreThoseOfMostOfTheTime(build: Victim.Build) throws {
      let state = try ScratchDirectory.inMemory()
      let victim = try Victim.run(
        "two-functions", build: build, environment: ["STALLMONITOR_STATE_DIRECTORY": state.path])
      let ended = try #require(victim.reports("stall.ended").first)
      let path = try #require(ended["stall", "path", "functions"] as? [String])
      let share = try #require(ended["stall", "path", "share"] as? Double)
      #expect(path.contains { $0.contains("handleRequest") })
      #expect(path.contains { $0.contains("countFor") })
      #expect(!path.contains { $0.contains("computeFor") })
      #expect(share > 0.5 && share < 0.95)

      let file = try #require(ended["stall", "detail"] as? String)
      let detail = try #require(
        try JSONSerialization.jsonObject(with: Data(contentsOf: URL(fileURLWithPath: file))) as? [String: Any])
      #expect((detail["stall"] as? [String: Any])?["id"] as? String == ended.id)
      let samples = try #require(detail["samples"] as? [[String: Any]])
      // Time that no sample represents has an entry, too.
      let seen = samples.count { $0["failure"] as? String != CaptureFailure.notSampled.rawValue }
      #expect(seen == ended["stall", "samples"] as? Int)
      let tree = try #require(detail["tree"] as? [[String: Any]])
      for (index, node) in tree.enumerated() {
        #expect(node["id"] as? Int == index)
        if let parent = node["parent"] as? Int {
          #expect(parent < index)
          #expect(node["weight_ms"] as? Double ?? .infinity <= (tree[parent]["weight_ms"] as? Double ?? 0) + 0.01)
        }
      }
      let symbols = tree.compactMap { $0["symbol"] as? String }
      #expect(symbols.contains { $0.contains("computeFor") } && symbols.contains { $0.contains("countFor") })
    }

    @Test func directoryThatCannotTakeAFileCostsTheFileAlone() throws {
      let state = try ScratchDirectory.inMemory()
      // A file where the folder should be.
      try Data().write(to: state.url.appending(path: "stalls"))
      let victim = try Victim.run(
        "compute", milliseconds: 900, environment: ["STALLMONITOR_STATE_DIRECTORY": state.path])
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended["stall", "detail"] == nil)
      #expect(victim.talk.contains("cannot write detail files in \(state.path)/stalls: "))
    }
  }
}
