import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// The functions that wait for what a thread of the pool runs, in a process whose callers are known.
  @Suite(.serialized, .timeLimit(.minutes(5)))
  struct AsyncCallersTests {
    /// What a scenario has to show.
    struct Expectation: Sendable, CustomTestStringConvertible {
      var scenario: String
      /// Parts of the callers' names, innermost first; the compiler's own functions may be between
      /// them.
      var callers: [String]
      /// Those that an optimizer leaves, where it inlines some into others; nil if all.
      var optimized: [String]?
      var isChild = false
      var isTruncated = false

      var testDescription: String { scenario }
    }

    /// How the thread is kept: in a system call, in a system call below other functions or below an area of any size, or on a
    /// processor.
    enum Manner: String, Sendable { case blocked, called, area, running }

    /// A symbol table has the names of continuations.
    private static let nameOfWithValue = TestMachine.namesSwiftsLibraries ? "withValue" : "?"

    static let expectations = [
      Expectation(
        scenario: "actor", callers: ["awaitHandle(", "awaitRoute(", "closure #1"],
        optimized: ["awaitRoute(", "closure #1"]),
      Expectation(scenario: "plain", callers: ["awaitPlain(", "closure #1"]),
      Expectation(scenario: "inlined", callers: ["awaitInside(", "awaitInlined(", "closure #1"]),
      Expectation(scenario: "resumed", callers: ["awaitResumed(", "closure #1"]),
      Expectation(scenario: "throwing", callers: ["awaitThrowing(", "closure #1"]),
      Expectation(scenario: "generic", callers: ["awaitGeneric", "closure #1"]),
      Expectation(scenario: "generic-buffer", callers: ["awaitOpaque<", "closure #1"]),
      Expectation(scenario: "witness", callers: ["awaitWitness(", "closure #1"], optimized: ["closure #1"]),
      Expectation(scenario: "closure", callers: ["awaitInClosure(", "awaitClosure(", "closure #1"]),
      Expectation(scenario: "stream", callers: ["awaitElement(", "awaitStream(", "closure #1"]),
      Expectation(scenario: "continuation", callers: ["awaitContinuation(", "closure #1"], optimized: ["closure #1"]),
      Expectation(
        scenario: "local", callers: ["awaitPlain(", nameOfWithValue, "awaitLocal(", "closure #1"],
        optimized: ["awaitPlain(", "awaitLocal(", "closure #1"]),
      Expectation(scenario: "main-actor", callers: ["awaitMainActor(", "closure #1"]),
      Expectation(scenario: "immediate", callers: ["awaitPlain(", "closure #1"]),
      Expectation(scenario: "detached", callers: ["awaitPlain(", "closure #1"]),
      Expectation(scenario: "async-let", callers: ["awaitHandle(", "withAsyncLet("], optimized: [], isChild: true),
      Expectation(
        scenario: "group", callers: ["awaitHandle(", "withGroup("], optimized: ["withGroup("], isChild: true),
      Expectation(scenario: "recursion", callers: ["recurse(", "recurse("], isTruncated: true),
      Expectation(scenario: "bottom", callers: []),
      Expectation(scenario: "nested", callers: []),
      Expectation(scenario: "no-task", callers: []),
    ]

    /// The callers and marks that the victim has printed.
    private struct Shown {
      var callers: [String] = []
      var isChild = false
      var isTruncated = false
      var text: String
    }

    private func run(_ scenario: String, _ manner: Manner, _ build: Victim.Build) throws -> Shown {
      let process = Process()
      process.executableURL = try build.executable("AsyncStackVictim")
      process.arguments = [scenario, manner.rawValue]
      let output = Pipe()
      process.standardOutput = output
      try process.run()
      let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      var shown = Shown(text: text)
      for line in text.split(separator: "\n") {
        if line.hasPrefix("async ") { shown.callers.append(String(line.dropFirst(6))) }
        if line == "child" { shown.isChild = true }
        if line == "truncated" { shown.isTruncated = true }
      }
      return shown
    }

    /// A function's area on the stack may have any size, and above it lie calls that were jumped to, as in libdispatch.
    @Test(arguments: Victim.Build.allCases)
    func framesAboveAnArea(build: Victim.Build) throws {
      let shown = try run("plain", .area, build)
      let frames = shown.text.split(separator: "\n").filter { $0.hasPrefix("frame ") }
      let wanted =
        ["keepThreadInArea<", "callKeeper(", "swift_job_run"]
        + (TestMachine.namesSwiftsLibraries ? ["_dispatch_worker_thread"] : [])
      var rest = frames[...]
      for name in wanted {
        let index = try #require(rest.firstIndex { $0.contains(name) }, "\(name) is missing: \(shown.text)")
        rest = rest[(index + 1)...]
      }
      #expect(shown.callers.contains { $0.contains("awaitPlain(") }, "\(shown.text)")
    }

    /// Also where the optimizer has inlined one into the other.
    @Test(arguments: Victim.Build.allCases)
    func eachCallerHasItsOwnLine(build: Victim.Build) throws {
      let shown = try run("inlined", .blocked, build)
      let lines = shown.text.split(separator: "\n").map { $0.split(separator: " ") }
      for function in ["awaitInside", "awaitInlined"] {
        let said = try #require(lines.first { $0.count == 3 && $0[0] == "line" && $0[1] == function }?.last)
        let caller = try #require(shown.callers.first { $0.contains("\(function)(") }, "\(shown.text)")
        #expect(caller.hasSuffix(" \(said)"), "\(shown.text)")
      }
    }

    @Test(arguments: [Manner.blocked, .called, .running], expectations)
    func callersAreThoseThatWait(_ manner: Manner, _ expected: Expectation) throws {
      for build in Victim.Build.allCases {
        var shown = try run(expected.scenario, manner, build)
        // On a busy machine a running thread is not always sampled.
        let reasons = ["no CPU was available", "no sample in time"]
        for _ in 0..<10 where manner == .running && reasons.contains(where: { shown.text.contains($0) }) {
          shown = try run(expected.scenario, manner, build)
        }
        // Names are looked up within a time limit, which a busy machine with an emulated processor may reach.
        for _ in 0..<3 where TestMachine.isEmulated && !shown.text.contains("AsyncStackVictim") {
          shown = try run(expected.scenario, manner, build)
        }
        #expect(shown.isChild == expected.isChild, "\(build): \(shown.text)")
        #expect(shown.isTruncated == expected.isTruncated, "\(build): \(shown.text)")
        var callers = shown.callers[...]
        for name in build == .release ? expected.optimized ?? expected.callers : expected.callers {
          guard let index = callers.firstIndex(where: { $0.contains(name) }) else {
            Issue.record("\(build): \(name) is missing: \(shown.text)")
            break
          }
          callers = callers[(index + 1)...]
        }
        // What begins a task is written by the compiler.
        let written = shown.callers.filter { !$0.contains("partial apply ") && !$0.contains("reabstraction thunk ") }
        if expected.callers.isEmpty { #expect(written.isEmpty, "\(build): \(shown.text)") }
        // Whatever else is there belongs to the same chain: no other function of the victim waits.
        let others = shown.callers.filter { caller in
          caller.hasPrefix("AsyncStackVictim.") && !expected.callers.contains { caller.contains($0) }
        }
        #expect(others.isEmpty, "\(build): \(shown.text)")
      }
    }
  }
}
