import Foundation
import TestSupport
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
    let schema = Repository.file("Tests/Support/speedscope/file-format-schema.json").path
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

  /// A track of a Firefox profile, as Tests/Support/check-firefox-profile.py sees it.
  private struct Track: Decodable {
    struct Sample: Decodable {
      var time: Double
      var weight: Double
      /// Outermost first: function, file, line, library.
      var stack: [[Part]]
      var category: String
    }

    struct Marker: Decodable {
      var name: String
      var start: Double
      var end: Double?
      var culprit: String?
      var cause: String
      var release: String?
      var id: String
      var count: Int
    }

    enum Part: Decodable, Equatable {
      case text(String)
      case number(Int)
      case none

      init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
          self = .none
        } else if let text = try? value.decode(String.self) {
          self = .text(text)
        } else {
          self = .number(try value.decode(Int.self))
        }
      }

      var text: String { if case .text(let text) = self { text } else { "" } }
    }

    var name: String
    var process: String
    var samples: [Sample]
    var markers: [Marker]
  }

  private func check(firefoxProfile file: String) throws -> Program {
    try Program.run(
      "/usr/bin/python3", [Repository.file("Tests/Support/check-firefox-profile.py").path, file])
  }

  /// Held to version 61 of the format as firefox-devtools/profiler documents it: no reader of others can be installed.
  @Test func firefoxProfileIsOfItsVersion() throws {
    let judge = try check(firefoxProfile: export("firefox"))
    try #require(judge.status == 0, "\(judge.errors.suffix(600))")
    let tracks = try JSONDecoder().decode([Track].self, from: Data(judge.output.utf8))
    // A track for each loop of a service on a host.
    #expect(tracks.count == 10)
    #expect(Set(tracks.map(\.name)) == ["main"])
    #expect(Set(tracks.map(\.process)).isSuperset(of: ["web on node-0", "search on node-3", "we;b\n2 on \"<&"]))

    // The same stacks with the same milliseconds as in the folded ones, which flamegraph.pl has read.
    var weights: [String: Double] = [:]
    for track in tracks {
      let service = track.process.split(separator: " on ")[0]
      for sample in track.samples {
        let names = ([String(service)] + sample.stack.map { $0[0].text }).map {
          $0.replacing(";", with: ":").replacing("\n", with: " ").replacing("\u{2028}", with: " ")
        }
        weights[names.joined(separator: ";"), default: 0] += sample.weight
      }
    }
    let folded = try String(contentsOfFile: export("folded"), encoding: .utf8).split(separator: "\n")
    #expect(folded.count == weights.count)
    for line in folded {
      let number = try #require(line.split(separator: " ").last)
      let stack = String(line.dropLast(number.count + 1))
      #expect(abs(try #require(weights[stack], "\(stack)") - (Double(number) ?? -1)) <= 1)
    }

    let write = try #require(tracks.flatMap(\.samples).first { $0.stack.last?[0] == .text("fsync") })
    #expect(
      write.stack == [
        [.text("main"), .text("/src/main.swift"), .number(12), .text("/usr/bin/web")],
        [.text("Store.write() throws -> ()"), .text("/src/Store.swift"), .number(11), .text("/usr/bin/web")],
        [.text("fsync"), .text("/src/fsync.swift"), .number(10), .text("/lib/x86_64-linux-gnu/libc.so.6")],
      ])
    #expect(write.category == "io")
    let markers = tracks.flatMap(\.markers)
    #expect(markers.count == lines.count)
    #expect(Set(markers.map(\.id)).count == lines.count && markers.allSatisfy { $0.name == "Stall" && $0.count == 1 })
    #expect(abs(markers.reduce(0) { $0 + ($1.end ?? 0) - $1.start } - lines.milliseconds) < 1)
    #expect(markers.contains { $0.culprit == "Store.write() throws -> ()" && $0.cause == "io" && $0.release == "1.2" })
  }

  /// The errors of a profile with a mistake in it, in Python.
  @Test(arguments: [
    ("p['meta']['preprocessedProfileVersion'] = 60", "AssertionError"),
    ("del p['meta']['stackwalk']", "meta lacks ['stackwalk']"),
    ("p['meta']['doesNotUseFrameImplementation'] = True", "meta has ['doesNotUseFrameImplementation']"),
    ("p['meta']['categories'][0]['color'] = 'black'", "'color': 'black'"),
    ("p['meta']['markerSchema'][0]['data'] = []", "schema has ['data']"),
    ("p['shared']['stackTable']['prefix'].pop()", "stackTable.prefix has"),
    ("p['shared']['stackTable']['prefix'][0] = 1", "a caller comes before what it calls"),
    ("p['shared']['frameTable']['func'][0] = 1000", "frameTable.func[0] is 1000"),
    ("p['shared']['frameTable']['line'][0] = '12'", "frameTable.line[0] is '12'"),
    ("p['shared']['funcTable']['fileName'] = p['shared']['funcTable'].pop('source')", "funcTable has"),
    ("p['shared']['sources']['startLine'][0] = 0", "count from 1"),
    ("p['threads'][0]['pid'] = 1", "thread.pid is 1"),
    ("p['threads'][0]['stringArray'] = p['shared'].pop('stringArray')", "shared lacks ['stringArray']"),
    ("p['threads'][0]['samples']['time'].reverse()", "times go on"),
    ("p['threads'][0]['samples']['stack'][0] = -1", "samples.stack[0] is -1"),
    ("p['threads'][0]['markers']['data'][0]['culprit'] = 'main'", "culprit is 'main'"),
    ("p['threads'][0]['markers']['data'][0]['type'] = 'Text'", "KeyError: 'Text'"),
    ("p['libs'][0]['breakpadId'] = 'aa00'", "aa00"),
  ])
  func brokenFirefoxProfileIsFound(mistake: String, said: String) throws {
    let file = try export("firefox")
    let program = "import json, sys; p = json.load(open(sys.argv[1])); \(mistake); json.dump(p, open(sys.argv[1], 'w'))"
    try #require(try Program.run("/usr/bin/python3", ["-c", program, file]).status == 0)
    let judge = try check(firefoxProfile: file)
    #expect(judge.status == 1)
    #expect(judge.errors.contains(said), "\(judge.errors.suffix(300))")
  }
}
