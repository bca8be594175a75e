import Foundation
import TestSupport
import Testing

@testable import stalld

/// `stalld demo`, with the names of its functions and without.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "the stalls of the demonstration have known durations"),
  .timeLimit(.minutes(2)))
struct DemoTests {
  // On an emulated processor the monitor misses the demo's short stalls while it reads names, for over a second.
  @Test(arguments: ["--strip-unneeded", "--strip-all"] + (ProcessInfo.isProcessorEmulated ? [] : [nil]))
  func demoFindsItsFourStalls(stripping: String?) throws {
    let scratch = try ScratchDirectory()
    var program = try Program.built("stalld", "debug").path
    if let stripping {
      let stripped = scratch.url.appending(path: "stalld").path
      let strip = try #require(Program.installed("strip"), "binutils is missing")
      #expect(try Program.run(strip, [stripping, "-o", stripped, program]).status == 0)
      program = stripped
    }
    let demo = try Program.run(program, ["demo"])
    #expect(demo.status == 0, "\(demo.errors)")
    #expect(
      demo.errors.contains(
        /All 4 planned stalls were reported, and (nothing else was|turns that were late on this busy machine, .*: \d+) \(/
      ))
    #expect(demo.errors.contains("this program is stripped") == (stripping != nil))
    for function in ["computeWithoutPause", "sleepOnTheMainLoop", "readFromASlowPeer", "waitForABusyLock"] {
      #expect(demo.errors.contains("\(function)()"), "\(function)")
    }
  }

  @Test("an optimized program exports the functions that stall: a static one names them after it was stripped")
  func functionsAreExported() throws {
    let nm = try #require(Program.installed("nm"), "binutils is missing")
    let symbols = try Program.run(nm, ["--defined-only", Program.built("stalld", "release").path]).output
    for stall in PlannedStall.allCases {
      let function = "8DemoHostO\(stall.function.utf8.count)\(stall.function)yyFZ"
      #expect(symbols.contains(" T $s6stalld\(function)\n"), "\(function) is not exported")
    }
  }

  @Test(
    "on a terminal, the demo prints one report line, and what to do next",
    .disabled(
      if: ProcessInfo.isProcessorEmulated,
      "the monitor misses the demo's short stalls while it reads names, for over a second"))
  func onATerminal() throws {
    let program = try Program.built("stalld", "debug").path
    let script = try #require(Program.installed("script"), "bsdutils is missing")
    let demo = try Program.run(script, ["--quiet", "--return", "--command", "\(program) demo", "/dev/null"])
    #expect(demo.status == 0, "\(demo.output)")
    #expect(demo.output.components(separatedBy: #"{"@timestamp""#).count == 2, "\(demo.output)")
    #expect(demo.output.contains("\(program) report --html demo.html demo.jsonl"))
  }

  @Test("a stall whose first line names no function, and a late turn of a busy machine, are as planned")
  func linesWithoutAFunction() {
    func line(_ event: String, _ stall: String, _ planned: PlannedStall?) -> [UInt8] {
      let culprit = planned.map { #""culprit":"\#($0.function)()","# } ?? ""
      return Array(
        #"{"event":{"name":"stall.\#(event)"},"stall":{"id":"\#(stall)",\#(culprit)"cause":"\#(planned?.causes[0].rawValue ?? "unknown")","duration_ms":2000},"stack":[]}"#
          .utf8)
    }
    let judge = DemoJudge(program: "stalld")
    for planned in PlannedStall.allCases {
      _ = judge.take(line("started", planned.function, planned == .sleeping ? nil : planned))
      #expect(judge.take(line("ended", planned.function, planned)) != nil)
    }
    for event in ["started", "ended"] { #expect(judge.take(line(event, "late", nil)) == nil) }
    let (isGood, account) = judge.verdict(hostStatus: 0)
    #expect(isGood, "\(account)")
    #expect(account.hasSuffix("no function is responsible: 1 (10 lines)."), "\(account)")
  }
}
