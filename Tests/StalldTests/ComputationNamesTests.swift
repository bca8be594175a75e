import Foundation
import StallDetection
import StallReport
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming
@testable import stalld

/// A stall on CPU is identified by what its samples have in common, whether the service, the agent
/// or `stalld symbolicate` names them.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct ComputationNamesTests {
  /// Many small functions, called from one.
  private static let scenario = ["c-compute-in-parts", ProcessInfo.isProcessorEmulated ? "10400" : "1300"]
  private static let common = "hidden_computation_in_parts"
  private static let environment = ["STALLMONITOR_THRESHOLD": "100ms", "STALLMONITOR_SAMPLING": "10ms"]

  private static func ended(_ text: String) throws -> WrittenReport {
    try #require(WrittenReport.all(in: text).longestEnd, "\(text)")
  }

  private static func run(_ program: String, _ more: [String: String] = [:]) throws -> String {
    let state = try ScratchDirectory()
    return try Program.run(
      program, scenario,
      environment: environment.merging(["STALLMONITOR_STATE_DIRECTORY": state.url.path]) { $1 }.merging(more) { $1 }
    ).output
  }

  @Test("a stall on CPU has the same fingerprint, whether the service, the agent or stalld symbolicate names it")
  func sameFingerprint() throws {
    var known: [String: String] = [:]
    for configuration in ["debug", "release"] {
      let line = try Self.ended(Self.run(Program.built("StallVictim", configuration).path))
      #expect(line.samples >= (ProcessInfo.isProcessorEmulated ? 2 : 3))
      #expect(!line.hasTree)
      known[configuration] = line.fingerprint
      #expect(line.functions.contains(Self.common), "\(line.functions)")
    }

    for configuration in ["debug", "release"] {
      let agent = try RunningAgent()
      _ = try Self.run(
        Program.built("StallVictim", configuration).path, ["STALLMONITOR_SINK": "agent:\(agent.socketPath)"])
      try agent.expect("the end of the stall") { try agent.reports().longestEnd.map { $0.duration > 700 } ?? false }
      try agent.expectValidLines()
      let named = try Self.ended(agent.lines().joined(separator: "\n"))
      known["\(configuration), named by the agent"] = named.fingerprint
      #expect(named.functions.contains(Self.common), "\(named.functions)")
      for line in try agent.lines() {
        #expect(line.utf8.count < 8000)
        #expect(!line.contains("call_tree"))
      }
    }

    let host = try SymbolicateTests.Stripped(Self.scenario, environment: Self.environment)
    try SymbolicateTests.validate(host.lines, in: host.scratch)
    let before = try Self.ended(host.lines)
    #expect(before.hasTree)
    let result = try host.symbolicate(["--debug-dir", host.debugDirectory])
    try SymbolicateTests.validate(result.output, in: host.scratch)
    let after = try Self.ended(result.output)
    known["stripped, named later"] = after.fingerprint
    #expect(after.functions.contains(Self.common), "\(after.functions)")
    #expect(!result.output.contains("call_tree"))
    #expect(try host.symbolicate(["--debug-dir", host.debugDirectory], result.output).output == result.output)

    #expect(known.count == 5)
    #expect(Set(known.values) == [try #require(known["debug"])], "\(known)")
    // Without the file, no name is added, and the samples stay for a program that has the file.
    let untold = try SymbolicateTests.symbolicate(
      [], host.lines.replacing(host.executable, with: "/nowhere"), in: host.scratch)
    #expect(try Self.ended(untold.output).hasTree)
  }

  /// A line with nothing but places, as a host writes it that leaves the names to others.
  private static func line(
    _ stacks: [[StackFrame]], shown: Int, running: Bool, limit: Int = StallReport.Report.longestUnnamedLine,
    event: StallReport.Report.Event = .ended
  ) -> [UInt8] {
    var episode = Episode(
      id: String(repeating: "0a", count: 16), turn: TurnWord(raw: 5), start: 1000)
    for (index, stack) in stacks.enumerated() {
      episode.add(
        Episode.Sample(thread: 7, activity: .running, stack: stack),
        at: Instant(2000 + 1_000_000 * UInt64(index)))
    }
    let executable = stacks.joined().first { $0.owner == .host }
    var report = StallReport.Report(
      time: .now(), event: event, stallID: episode.id, sequence: 1, thresholdNanoseconds: 1,
      durationNanoseconds: 9_000_000,
      verdict: Verdict(cause: .running, evidence: .init(state: running ? "running" : "blocked")),
      culprit: Culprit.frame(of: stacks[shown]), fingerprint: Culprit.fingerprint(of: stacks[shown]),
      samples: stacks.count,
      loop: .init(name: "main", kind: .loop, mode: nil, phase: .afterWaiting, callout: nil), threadID: 7,
      origin: .init(
        processID: 7, executablePath: executable?.module ?? "/x", executableBuildID: executable?.buildID,
        serviceName: "x", hostName: "h"), stack: stacks[shown])
    report.isNamed = false
    report.places = episode.unnamedSamples
    return report.line(limit: limit)
  }

  private static func complete(_ line: [UInt8], _ lookup: @escaping ReportNaming.Lookup) throws -> WrittenReport {
    Symbolizer.load()
    let bytes: [UInt8] =
      switch ReportCompletion(lookup).complete(Array(line.dropLast())) {
      case .completed(let bytes, _): bytes
      case .unchanged: Array(line.dropLast())
      case .notAReport(let reason): throw NotAReport(reason: reason)
      }
    #expect(bytes.count < 8000)
    return try WrittenReport(String(decoding: bytes, as: UTF8.self))
  }

  private struct NotAReport: Error { var reason: String }

  @Test("naming a line of the corpus gives its fingerprint", arguments: CorpusStall.all)
  func corpus(stall: CorpusStall) throws {
    guard stall.isNamed else { return }
    let (stacks, names) = stall.places()
    let line = try Self.complete(Self.line(stacks, shown: stall.shown, running: stall.running)) { names[$2] }
    #expect(line.fingerprint == stall.fingerprint)
    #expect(!line.hasTree)
  }

  // MARK: What cannot be named

  private static func frame(_ offset: UInt64, _ module: String = "/app") -> StackFrame {
    StackFrame(module: module, buildID: module == "/app" ? "aa" : "bb", offset: offset).named(
      [], isExecutable: module == "/app")[0]
  }

  /// `main` calls `work` at many places, and that calls a leaf each time; `leaf` says where.
  private static func computation(_ samples: Int, leaf: (Int) -> [StackFrame]) -> [[StackFrame]] {
    (0..<samples).map { leaf($0) + [frame(0x100 + UInt64($0)), frame(1)] }
  }

  private static func name(_ offset: UInt64) -> [SymbolizedFrame] {
    [.init(linkageName: offset == 1 ? "main" : offset < 0x1000 ? "work" : "leaf_\(offset)")]
  }

  @Test func librariesWithoutNamesChangeNothing() throws {
    let stacks = Self.computation(9) {
      [Self.frame(UInt64($0), "/lib/x86_64-linux-gnu/libc.so.6"), Self.frame(0x1000 + UInt64($0))]
    }
    let line = try Self.complete(Self.line(stacks, shown: 4, running: true)) { $0 == "aa" ? Self.name($2) : nil }
    #expect(line.functions == ["work", "main"])
    #expect(line.fingerprint == Culprit.fingerprint(of: [StackFrame(symbol: "work")]))
    #expect(!line.hasTree)
  }

  /// Functions that wait for an asynchronous call get names, too, and a place in the path; the fingerprint is the same.
  @Test(arguments: [true, false])
  func asyncCallersGetNames(inEachSample: Bool) throws {
    let callers = [UInt64(3), 2].map { offset in
      var caller = Self.frame(offset)
      caller.isAsync = true
      return [caller]
    }
    let stacks = Self.computation(9) { [Self.frame(0x1000 + UInt64($0))] }.enumerated().map { index, stack in
      stack + (inEachSample ? callers[1] : index % 3 == 2 ? [] : callers[index % 3])
    }
    let line = try Self.complete(Self.line(stacks, shown: 4, running: true)) { _, _, offset in
      2...3 ~= offset ? [.init(linkageName: offset == 2 ? "route" : "other")] : Self.name(offset)
    }
    #expect(line.stack.map { $0["symbol"] as? String } == ["leaf_\(0x1004)", "work", "main", "route"])
    #expect(line.stack.map { $0["async"] as? Bool } == [nil, nil, nil, true])
    #expect(line.fingerprint == Culprit.fingerprint(of: [StackFrame(symbol: "work")]))
    #expect(line.functions == (inEachSample ? ["work", "main", "route"] : ["work", "main"]))
    #expect(!line.hasTree)
  }

  /// Five of nine leaves lie in a library of the host's own that is not there: they might be one function.
  @Test func noFingerprintIsMadeWhereANameThatIsNotKnownMayChangeIt() throws {
    let stacks = Self.computation(9) { [Self.frame(0x1000 + UInt64($0), $0 < 5 ? "/opt/app/libown.so" : "/app")] }
    let host = Self.line(stacks, shown: 8, running: true)
    let line = try Self.complete(host) { $0 == "aa" ? Self.name($2) : nil }
    #expect(line["stall", "culprit"] as? String == "leaf_\(0x1008)")
    #expect(line.fingerprint == nil)
    #expect(line.functions == [])
    #expect(line.hasTree, "whoever has the file may still tell")
    // Nor in the summary of repetitions, which had one of an address.
    var summary = String(decoding: host, as: UTF8.self)
    summary.replace(/"state":"running",?/, with: "")
    summary.replace(#""name":"stall.ended""#, with: #""name":"stall.suppressed""#)
    let counted = try Self.complete(Array(summary.utf8)) { $0 == "aa" ? Self.name($2) : nil }
    #expect(counted["stall", "culprit"] as? String == "leaf_\(0x1008)")
    #expect(counted.fingerprint == nil)
    let later = try JSONSerialization.data(withJSONObject: line.object) + [0x0a]
    let named = try Self.complete(Array(later)) { _, _, offset in Self.name(offset) }
    #expect(named.fingerprint == Culprit.fingerprint(of: [StackFrame(symbol: "work")]))
    #expect(!named.hasTree)
    // Four could not be most.
    let fewer = Self.computation(9) { [Self.frame(0x1000 + UInt64($0), $0 < 4 ? "/opt/app/libown.so" : "/app")] }
    let certain = try Self.complete(Self.line(fewer, shown: 8, running: true)) { $0 == "aa" ? Self.name($2) : nil }
    #expect(certain.fingerprint == Culprit.fingerprint(of: [StackFrame(symbol: "work")]))
  }

  @Test func noFingerprintIsMadeOfOneOfManySamples() throws {
    var line = String(
      decoding: Self.line(Self.computation(9) { [Self.frame(0x1000 + UInt64($0))] }, shown: 0, running: true),
      as: UTF8.self)
    line.replace(/,"call_tree":.*\}\n/, with: "}\n")
    let named = try Self.complete(Array(line.utf8)) { _, _, offset in Self.name(offset) }
    #expect(named["stall", "culprit"] as? String == "leaf_\(0x1000)")
    #expect(named.fingerprint == nil)
  }

  @Test("a tree that was cut for length gives the same fingerprint, or none", arguments: [20, 60, 300, 1500])
  func cutTree(samples: Int) throws {
    // Each sample has its own way for a while: so much is not carried.
    let stacks = Self.computation(samples) { sample in
      (0..<12).map { Self.frame(0x1000 + UInt64(16 * sample + $0)) }
    }
    for limit in [StallReport.Report.longestUnnamedLine, 8000] {
      let host = Self.line(stacks, shown: 0, running: true, limit: limit)
      #expect(host.count <= limit)
      let line = try Self.complete(host) { _, _, offset in Self.name(offset) }
      #expect(line.fingerprint == nil || line.fingerprint == Culprit.fingerprint(of: [StackFrame(symbol: "work")]))
      if limit > 8000, samples <= 300 { #expect(line.fingerprint != nil) }
    }
  }

  @Test func deepRecursionFits() throws {
    let stacks = (0..<9).map { sample in
      [Self.frame(0x1000 + UInt64(sample)), Self.frame(0x100 + UInt64(sample))]
        + Array(repeating: Self.frame(2), count: 1900)
        + [Self.frame(1)]
    }
    let line = try Self.complete(Self.line(stacks, shown: 0, running: true)) { _, _, offset in Self.name(offset) }
    #expect(line.object["frames_omitted"] != nil)
    #expect(line.functions.first == "work")
    #expect(line.functions.last == "main")
  }

  @Test(
    "an inconsistent tree is ignored",
    arguments: [
      #"{}"#, #"7"#, #"{"samples":0,"weight_ms":1,"modules":[],"nodes":{}}"#,
      #"{"samples":2,"weight_ms":1,"modules":[],"nodes":{"parent":[0],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
      #"{"samples":2,"weight_ms":1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[0],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
      #"{"samples":2,"weight_ms":1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1],"module":[0],"offset":["0x1"],"samples":[3],"weight_ms":[1]}}"#,
      #"{"samples":2,"weight_ms":1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1,0,0],"module":[0,0,0],"offset":["0x1","0x2","0x3"],"samples":[2,2,1],"weight_ms":[1,1,1]}}"#,
      #"{"samples":2,"weight_ms":-1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
      #"{"samples":2,"weight_ms":1e300,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
      #"{"samples":9223372036854775807,"weight_ms":1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
      #"{"samples":2,"weight_ms":1,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":[-1,0],"module":[0],"offset":["0x1"],"samples":[2],"weight_ms":[1]}}"#,
    ])
  func hostileTree(tree: String) throws {
    var line = String(
      decoding: Self.line(Self.computation(2) { [Self.frame(0x1000 + UInt64($0))] }, shown: 0, running: true),
      as: UTF8.self)
    line.replace(/"call_tree":.*\}\n/, with: "\"call_tree\":\(tree)}\n")
    let named = try Self.complete(Array(line.utf8)) { _, _, offset in Self.name(offset) }
    #expect(named.fingerprint == nil)
    #expect(named["stall", "culprit"] as? String == "leaf_\(0x1000)")
  }

  @Test("weights whose sum is too large do not overflow", arguments: [true, false], [true, false])
  func hostileWeights(isSamePlace: Bool, hasNames: Bool) throws {
    func column(_ value: (Int) -> String) -> String { (0..<30).map(value).joined(separator: ",") }
    let tree =
      #"{"samples":30,"weight_ms":1e12,"modules":[{"module":"/app","build_id":"aa"}],"nodes":{"parent":["#
      + column { _ in "-1" } + #"],"module":["# + column { _ in "0" } + #"],"offset":["#
      + column { "\"0x\(isSamePlace ? "1" : String(4096 + $0, radix: 16))\"" } + #"],"samples":["#
      + column { _ in "1" } + #"],"weight_ms":["# + column { _ in "1e12" } + "]}}"
    var line = String(
      decoding: Self.line(Self.computation(2) { [Self.frame(0x1000 + UInt64($0))] }, shown: 0, running: true),
      as: UTF8.self)
    line.replace(/"call_tree":.*\}\n/, with: "\"call_tree\":\(tree)}\n")
    let named = try Self.complete(Array(line.utf8)) { _, _, offset in
      // Only what the line shows has names: the rest is in doubt.
      hasNames || offset == 0x1000 ? Self.name(offset) : nil
    }
    #expect(named["stall", "culprit"] as? String == "leaf_\(0x1000)")
  }
}

extension WrittenReport {
  fileprivate var functions: [String] { self["stall", "path", "functions"] as? [String] ?? [] }
  fileprivate var samples: Int { self["stall", "samples"] as? Int ?? 0 }
  fileprivate var hasTree: Bool { object["call_tree"] != nil }
}
