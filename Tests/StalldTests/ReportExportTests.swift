import Foundation
import TakingTurns
import Testing

@testable import stalld

/// What `stalld report` writes for other programs, read by these.
@Suite(.serialized, .takingTurns) struct ReportExportTests {
  let scratch: ScratchDirectory
  let lines: ReportLines

  init() throws {
    scratch = try ScratchDirectory()
    var lines = ReportLines(60, hosts: 4)
    lines.add(
      .init(service: "we;b\n2", cause: "sleep", functions: ["nano;sleep\u{2028} 7", "main"]), host: "\"<&",
      milliseconds: 1000.4)
    lines.add(.init(service: "quiet", cause: "unknown", functions: []), milliseconds: 500)
    self.lines = lines
  }

  private func export(_ format: String) throws -> String {
    let file = scratch.url.appending(path: "export.\(format)").path
    let command =
      "'\(try Program.built("stalld", "debug").path)' report --format \(format) '\(try lines.file(in: scratch))' >'\(file)'"
    let run = try Program.run("/bin/sh", ["-c", command])
    try #require(run.status == 0, "\(run.errors)")
    return file
  }

  private var wholeMilliseconds: Int { Int(lines.milliseconds.rounded()) }

  @Test func foldedHasEachStackOnceInWholeMilliseconds() throws {
    let folded = try String(contentsOfFile: export("folded"), encoding: .utf8).split(separator: "\n")
    #expect(folded.count == 5)
    #expect(folded.contains { $0.hasPrefix("web;main;Store.read() -> ();___pthread_mutex_lock ") })
    #expect(folded.contains("we:b 2;main;nano:sleep  7 1000"))
    #expect(folded.contains("quiet;(no stack) 500"))
    let sum = folded.reduce(0) { $0 + (Int($1.split(separator: " ").last ?? "") ?? -1_000_000) }
    #expect(abs(sum - wholeMilliseconds) <= 3)
  }

  /// Brendan Gregg's script, as Debian's libdevel-nytprof-perl has it.
  private static let flameGraph = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"

  @Test(
    .enabled(
      if: FileManager.default.fileExists(atPath: flameGraph),
      "libdevel-nytprof-perl is not installed: make test-pictures installs it"))
  func flameGraphDrawsTheFoldedStacks() throws {
    let drawn = try Program.run("/usr/bin/perl", [Self.flameGraph, "--countname", "ms", try export("folded")])
    #expect(drawn.status == 0)
    #expect(drawn.errors.isEmpty, "\(drawn.errors)")
    let all = try #require(drawn.output.firstMatch(of: /all \(([\d,]+) ms, 100%\)/)?.1)
    #expect(abs(try #require(Int(all.replacing(",", with: ""))) - wholeMilliseconds) <= 3)
    // The script writes no angle brackets.
    #expect(drawn.output.contains("Store.read() -) () ("))
  }

  /// profile.proto as Debian's golang-github-google-pprof-dev has it.
  private static let proto = "/usr/share/gocode/src/github.com/google/pprof/proto"

  @Test(
    .enabled(
      if: Program.installed("protoc") != nil && FileManager.default.fileExists(atPath: proto),
      "protobuf-compiler or golang-github-google-pprof-dev is not installed: make test-pictures installs them"))
  func pprofIsAMessageOfItsProto() throws {
    let command =
      "set -o pipefail; gzip -dc '\(try export("pprof"))' | protoc --decode=perftools.profiles.Profile -I \(Self.proto) profile.proto"
    let decoded = try Program.run("/bin/bash", ["-c", command])
    #expect(decoded.status == 0, "\(decoded.errors)")
    // An unknown field would be a bare number.
    #expect(!decoded.output.split(separator: "\n").contains { $0.drop { $0 == " " }.first?.isNumber == true })
    let texts = decoded.output.matches(of: /string_table: (".*")/).map { String($0.1) }
    #expect(texts.first == "\"\"")
    #expect(
      Set(texts).isSuperset(of: [
        "\"stalls\"", "\"count\"", "\"stall\"", "\"nanoseconds\"", "\"service\"", "\"host\"", "\"cause\"",
        "\"bb00112233445566778899aabbccddeeff001122\"",
      ]))
  }

  @Test(.enabled(if: Program.installed("go") != nil, "golang-go is not installed: make test-pictures installs it"))
  func pprofReadsTheProfile() throws {
    let file = try export("pprof")
    let environment = ["HOME": scratch.url.path, "PPROF_TMPDIR": scratch.url.path]
    func pprof(_ arguments: [String]) throws -> String {
      let run = try Program.run(
        try #require(Program.installed("go")), ["tool", "pprof", "-symbolize=none"] + arguments + [file],
        environment: environment)
      #expect(run.status == 0, "\(run.errors)")
      return run.output
    }
    let top = try pprof(["-sample_index=stall", "-unit=ms", "-nodefraction=0", "-top"])
    let total = try #require(top.firstMatch(of: /([\d.]+)ms total/)?.1)
    #expect(abs(try #require(Double(total)) - lines.milliseconds) < 2)
    #expect(top.contains("File: web"), "the service's program comes first")
    #expect(top.contains("Store.read() -> ()"), "names are whole")
    let tags = try pprof(["-sample_index=stalls", "-tags"])
    #expect(tags.contains(/cause: Total 62/))
    #expect(tags.contains(/20\.0 \(32\.26%\): lock/))
    #expect(tags.contains(/host: Total 62/) && tags.contains("node-3") && tags.contains("service: Total 62"))
    let raw = try pprof(["-raw"])
    #expect(raw.contains("stalls/count stall/nanoseconds[dflt]"))
    #expect(raw.contains(/\/usr\/bin\/web bb00112233445566778899aabbccddeeff001122 \[FN\]\[FL\]\[LN\]/))
    #expect(raw.contains("Store.read() -> () /src/Store.swift:11"))
  }

  /// Against speedscope's own schema.
  @Test func speedscopeIsOfItsSchema() throws {
    let file = try export("speedscope")
    let check = """
      import json, jsonschema, sys
      jsonschema.validate(json.load(open(sys.argv[2])), json.load(open(sys.argv[1])))
      """
    let schema = Program.root.appending(path: "Tests/Support/speedscope/file-format-schema.json").path
    let judge = try Program.run("/usr/bin/python3", ["-c", check, schema, file])
    #expect(judge.status == 0, "\(judge.errors.suffix(600))")
    let written = try #require(
      try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: file))) as? [String: Any])
    let frames = try #require((written["shared"] as? [String: Any])?["frames"] as? [[String: Any]])
    let profiles = try #require(written["profiles"] as? [[String: Any]])
    #expect(profiles.compactMap { $0["name"] as? String } == ["All stalls", "web", "search", "we;b\n2", "quiet"])
    for profile in profiles {
      let (samples, weights) = (profile["samples"] as? [[Int]] ?? [], profile["weights"] as? [Double] ?? [])
      #expect(samples.count == weights.count && !samples.isEmpty)
      #expect(samples.joined().allSatisfy(frames.indices.contains))
      #expect(abs(weights.reduce(0, +) - (profile["endValue"] as? Double ?? -1)) < 0.01)
    }
    #expect(abs((profiles[0]["endValue"] as? Double ?? 0) - lines.milliseconds) < 0.1)
    let heaviest = try #require((profiles[0]["samples"] as? [[Int]])?.first)
    #expect(frames[heaviest[0]]["name"] as? String == "main", "the outermost comes first")
  }

  /// Against the tables of the processed format, version 61, as firefox-devtools/profiler documents them (src/types/profile.ts).
  @Test func firefoxProfileIsOfItsVersion() throws {
    let file = try export("firefox")
    let support = Program.root.appending(path: "Tests/Support").path
    let judge = try Program.run("/usr/bin/python3", ["\(support)/check-firefox-profile.py", file])
    #expect(judge.status == 0, "\(judge.errors.suffix(600))")
    let summary = try #require(
      try JSONSerialization.jsonObject(with: Data(judge.output.utf8)) as? [String: Any], "\(judge.output)")
    // A track for each loop of a service on a host.
    #expect(summary["tracks"] as? Int == 10)
    #expect(summary["markers"] as? Int == lines.count)
    #expect(abs((summary["milliseconds"] as? Double ?? 0) - lines.milliseconds) < 0.1)
    #expect((summary["stacks"] as? [String])?.contains("main > Store.write() throws -> () > fsync") == true)
  }
}
