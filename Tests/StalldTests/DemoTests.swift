import Foundation
import TestSupport
import Testing

/// `stalld demo`, as it is installed: without the names of its functions.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "the stalls of the demonstration have known durations"),
  .timeLimit(.minutes(2)))
struct DemoTests {
  @Test(arguments: ["--strip-unneeded", "--strip-all", nil])
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
    #expect(demo.errors.contains("This program is stripped") == (stripping != nil))
    for function in ["computeWithoutPause", "sleepOnTheMainLoop", "readFromASlowPeer", "waitForABusyLock"] {
      #expect(demo.errors.contains("\(function)()"), "\(function)")
    }
  }

  @Test("on a terminal, the demo prints one report line, and what to do next")
  func onATerminal() throws {
    let program = try Program.built("stalld", "debug").path
    let script = try #require(Program.installed("script"), "bsdutils is missing")
    let demo = try Program.run(script, ["--quiet", "--return", "--command", "\(program) demo", "/dev/null"])
    #expect(demo.status == 0, "\(demo.output)")
    #expect(demo.output.components(separatedBy: #"{"@timestamp""#).count == 2, "\(demo.output)")
    #expect(demo.output.contains("\(program) report --html demo.html demo.jsonl"))
  }
}
