import StallReport
import Testing

@testable import StallMonitor

/// Which stalls are reported, to the nanosecond: the test sets the clock.
struct RepeatLedgerTests {
  private static let second: UInt64 = 1_000_000_000

  private func report(_ fingerprint: String?, milliseconds: UInt64 = 300, id: String = "1") -> StallReport.Report {
    StallReport.Report(
      time: .now(), event: .ended, stallID: id, sequence: 0, thresholdNanoseconds: 250_000_000,
      durationNanoseconds: milliseconds * 1_000_000, verdict: Verdict(cause: .running, evidence: .init()),
      fingerprint: fingerprint, samples: 1,
      loop: .init(name: "main", kind: .loop, mode: nil, phase: .afterWaiting, callout: nil), threadID: 1,
      origin: .init(processID: 1, executablePath: "/x", serviceName: "x", hostName: "h"), stack: [])
  }

  private func tell(_ ledger: RepeatLedger, _ report: StallReport.Report, at now: UInt64) {
    #expect(ledger.begin(report, at: now) == .report)
    ledger.didReport(report, at: now)
  }

  private func count(_ ledger: RepeatLedger, _ report: StallReport.Report, at now: UInt64) {
    #expect(ledger.begin(report, at: now) == .count)
    ledger.didCount(report, at: now)
  }

  /// The samples of a repetition may have met another function.
  @Test func summaryHasTheIdentityOfTheReportedStall() throws {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    var (told, repeated) = (report("a", id: "told"), report("b"))
    (told.repeatKey, repeated.repeatKey) = ("the same", "the same")
    tell(ledger, told, at: 0)
    count(ledger, repeated, at: 10 * Self.second)
    let summary = try #require(ledger.summaries(at: 30 * Self.second).first)
    #expect(summary.stallID == "told")
    #expect(summary.fingerprint == "a")
  }

  @Test func repetitionsAreSummedUpAtTheEndOfGrowingWindows() throws {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    tell(ledger, report("a", id: "told"), at: 0)
    #expect(ledger.nextSummary == nil)
    count(ledger, report("a", milliseconds: 400), at: 10 * Self.second)
    count(ledger, report("a", milliseconds: 500), at: 20 * Self.second)
    #expect(ledger.nextSummary == 30 * Self.second)
    #expect(ledger.summaries(at: 29 * Self.second).isEmpty)
    let summary = try #require(ledger.summaries(at: 30 * Self.second).first)
    #expect(summary.event == .suppressed)
    #expect(summary.stallID == "told")
    #expect(
      summary.tally == .init(count: 2, total: 900_000_000, longest: 500_000_000, window: 30 * Self.second))
    #expect(summary.durationNanoseconds == 900_000_000)
    // The next window is twice as long.
    count(ledger, report("a"), at: 40 * Self.second)
    #expect(ledger.nextSummary == 90 * Self.second)
  }

  @Test func windowWithoutRepetitionEndsTheMatter() {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    tell(ledger, report("a"), at: 0)
    tell(ledger, report("a"), at: 30 * Self.second)
  }

  @Test func differentStallsAreReportedEach() {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    for fingerprint in ["a", "b", nil] { tell(ledger, report(fingerprint), at: 0) }
    count(ledger, report(nil), at: 1)
  }

  @Test func wayToAFunctionMattersAndTheDepthOfARecursionDoesNot() throws {
    func key(_ names: String...) -> String? {
      Culprit.repeatKey(of: names.map { StackFrame(symbol: $0, module: "host") })
    }
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    for way in [key("query", "list"), key("query", "search")] {
      var report = report("query")
      #expect(way != nil)
      report.repeatKey = way
      tell(ledger, report, at: 0)
      count(ledger, report, at: 1)
    }
    #expect(key("visit", "visit", "visit", "load") == key("visit", "load"))
    #expect(key("visit", "load") != key("load", "visit"))
    #expect(key() == nil)
  }

  /// Functions that were inlined into one begin where that begins, and lie at other addresses of it.
  @Test func withoutNamesTheAddressesMatter() {
    func key(_ frames: [(symbol: String?, file: String?, offset: UInt64)]) -> String? {
      Culprit.repeatKey(
        of: frames.map {
          var frame = StackFrame(symbol: $0.symbol, file: $0.file, module: "/app", buildID: "aa", offset: $0.offset)
          frame.function = 0x100
          let module = ModuleIdentity(path: "/app", buildID: [0xaa])
          if $0.symbol == nil { frame.source = SymbolSource(module: module, isExecutable: true) }
          return frame
        })
    }
    #expect(key([(nil, nil, 0x110), (nil, nil, 0x200)]) == key([(nil, nil, 0x110), (nil, nil, 0x200)]))
    #expect(key([(nil, nil, 0x110), (nil, nil, 0x200)]) != key([(nil, nil, 0x118), (nil, nil, 0x200)]))
    #expect(key([("handle", "/login.c", 0x110)]) == key([("handle", "/login.c", 0x118)]))
    #expect(key([("handle", "/login.c", 0x110)]) != key([("handle", "/invoice.c", 0x110)]))
  }

  /// Few stalls without names are known to be the same: one loop may not use up the budget of all.
  @Test func unnamedStallsOfOneLoopAreLimited() throws {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 60, now: 0)
    func stall(_ number: Int, of loop: String) -> StallReport.Report {
      var stall = report("\(number)")
      (stall.loop.name, stall.isNamed) = (loop, false)
      return stall
    }
    for number in 0..<10 { tell(ledger, stall(number, of: "main"), at: 0) }
    for number in 10..<13 { count(ledger, stall(number, of: "main"), at: 0) }
    tell(ledger, stall(0, of: "other"), at: 0)
    let summaries = ledger.summaries(at: 60 * Self.second)
    #expect(summaries.map { $0.tally?.count } == [3])
    #expect(summaries.first?.tally?.isOverBudget == true && summaries.first?.culprit == nil)
    tell(ledger, stall(13, of: "main"), at: 66 * Self.second)
  }

  @Test func closingReportsWhatWasCounted() {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    tell(ledger, report("a"), at: 0)
    count(ledger, report("a"), at: Self.second)
    #expect(ledger.summaries(at: 2 * Self.second, closing: true).count == 1)
    #expect(ledger.summaries(at: 2 * Self.second, closing: true).isEmpty)
  }

  @Test func longRepetitionIsPromoted() {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    tell(ledger, report("a", milliseconds: 600), at: 0)
    #expect(ledger.begin(report("a"), at: 1) == .count)
    #expect(!ledger.promotes(report("a", milliseconds: 1100), at: 1))
    #expect(ledger.promotes(report("a", milliseconds: 1300), at: 1))
  }

  @Test func budgetIsRefilledWithTheTime() throws {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 2, now: 0)
    for fingerprint in ["a", "b"] { tell(ledger, report(fingerprint), at: 0) }
    for fingerprint in ["c", "d"] { count(ledger, report(fingerprint), at: Self.second) }
    tell(ledger, report("e"), at: 31 * Self.second)
    let summary = try #require(ledger.summaries(at: 100 * Self.second).first)
    #expect(summary.tally?.count == 2)
    #expect(summary.tally?.isOverBudget == true)
    #expect(summary.fingerprint == nil)
  }

  @Test func nothingCountedIsLostAmongManyStalls() {
    let ledger = RepeatLedger(window: 30 * Self.second, budget: 0, now: 0)
    tell(ledger, report("counted"), at: 0)
    count(ledger, report("counted"), at: 1)
    for index in 0..<1000 { tell(ledger, report("\(index)"), at: 2) }
    #expect(ledger.summaries(at: 3, closing: true).map(\.fingerprint) == ["counted"])
  }
}
