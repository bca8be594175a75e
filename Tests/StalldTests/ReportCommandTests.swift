import Foundation
import StallReport
import TestSupport
import Testing

@testable import stalld

/// `stalld report` with files as they are on machines: many hosts, rotated and packed, cut and hostile.
@Suite(.serialized, .takingTurns) struct ReportCommandTests {
  /// A report line.
  static func line(
    _ event: String = "ended", id: Int, sequence: Int = 1, ms: Double = 300, at time: String = "2026-11-21T10:00:00",
    culprit: String = "App.load() -> ()", cause: String = "io", service: String = "web", release: String = "1.0",
    host: String = "a", suppressed: String = "", stack: String? = nil, fingerprint: String = "v2:0000000000000001"
  ) -> String {
    let number = String(id, radix: 16)
    let padded = String(repeating: "0", count: 32 - number.count) + number
    let frames =
      stack ?? #"[{"symbol":"read","module":"/lib/libc.so.6"},{"symbol":"\#(culprit)","file":"/src/a.swift","line":7}]"#
    return
      #"{"@timestamp":"\#(time).000000000Z","log.level":"warn","message":"m","event":{"name":"stall.\#(event)","schema":"1.0"},"#
      + #""stall":{"id":"\#(padded)","sequence":\#(sequence),"threshold_ms":250.000,"duration_ms":\#(ms),"cause":"\#(cause)","evidence":{},"#
      + #""culprit":"\#(culprit)","fingerprint":"\#(fingerprint)","samples":1\#(suppressed)},"loop":{"name":"main","kind":"loop","phase":"idle"},"#
      + #""process":{"pid":1,"executable":{"path":"/x"}},"service":{"name":"\#(service)","version":"\#(release)"},"#
      + #""host":{"name":"\#(host)"},"stack":\#(event == "suppressed" ? "[]" : frames)}"#
  }

  private static func run(
    _ arguments: [String], _ files: [String: String] = [:], input: String? = nil, after: String = ""
  ) throws -> Program {
    let scratch = try ScratchDirectory()
    for (name, text) in files { try Data(text.utf8).write(to: scratch.url.appending(path: name)) }
    if let input { try Data(input.utf8).write(to: scratch.url.appending(path: "input")) }
    let command =
      "cd \(scratch.url.path) && \(after)\n"
      + "exec \(try Program.built("stalld", "debug").path) report \"$@\" <\(input == nil ? "/dev/null" : "input")"
    return try Program.run("/bin/bash", ["-c", command, "sh"] + arguments)
  }

  private static func groups(_ arguments: [String], _ files: [String: String]) throws -> [[String: Any]] {
    let program = try run(arguments + ["--format", "json"], files)
    #expect(program.status == 0, "\(program.errors)")
    let object = try JSONSerialization.jsonObject(with: Data(program.output.utf8)) as? [String: Any]
    return try #require(object?["groups"] as? [[String: Any]])
  }

  @Test func stallCountsOnceWithItsLastDuration() throws {
    // In another order than they were written, in two files, and one of them twice.
    let lines = [
      Self.line("ended", id: 1, sequence: 4, ms: 5000), Self.line("started", id: 1, sequence: 2, ms: 250),
      Self.line("fatal", id: 2, sequence: 9, ms: 700), Self.line("ongoing", id: 2, sequence: 8, ms: 600),
    ]
    let groups = try Self.groups(
      ["a", "b"],
      ["a": lines.joined(separator: "\n"), "b": lines[0] + "\n" + Self.line("ongoing", id: 1, sequence: 3, ms: 1000)])
    #expect(groups.count == 1)
    #expect(groups[0]["count"] as? Int == 2)
    #expect(groups[0]["fatal"] as? Int == 1)
    #expect(groups[0]["total_ms"] as? Double == 5700)
    #expect(groups[0]["p50_ms"] as? Double == 700)
    #expect(groups[0]["max_ms"] as? Double == 5000)
    #expect(groups[0]["first_seen"] as? String == "2026-11-21T09:59:55.000Z")
    #expect(groups[0]["last_seen"] as? String == "2026-11-21T10:00:00.000Z")
  }

  @Test func oneStallHasTheSingularForm() throws {
    let text = Self.line(id: 1)
    #expect(try Self.run(["a"], ["a": text]).output.hasSuffix("\n1 stall, 300 ms in total\n"))
    let two = text + "\n" + Self.line(id: 2, culprit: "b()")
    #expect(
      try Self.run(["a", "--limit", "1"], ["a": two]).output.hasSuffix(
        "\n2 stalls, 600 ms in total; 1 more row (--limit)\n"))
    let difference = try Self.run(["--diff", "a", "b"], ["a": text, "b": two]).output
    #expect(difference.hasPrefix("a: 1 stall, 300 ms") && difference.contains(", 1 host\nb: 2 stalls, 600 ms"))
  }

  @Test func countedStallsAreIncluded() throws {
    let tally = #","suppressed":{"count":7,"total_ms":2800.5,"longest_ms":900,"window_ms":30000}"#
    let lines = [
      Self.line(id: 1, ms: 400), Self.line("suppressed", id: 1, sequence: 5, ms: 2800.5, suppressed: tally),
      Self.line("suppressed", id: 1, sequence: 5, ms: 2800.5, suppressed: tally),
      Self.line("suppressed", id: 1, sequence: 8, ms: 2800.5, suppressed: tally),
    ].joined(separator: "\n")
    let group = try #require(try Self.groups(["a"], ["a": lines]).first)
    #expect(group["count"] as? Int == 15)
    #expect(group["suppressed"] as? Int == 14)
    #expect(group["total_ms"] as? Double == 6001)
    #expect(group["p99_ms"] as? Double == 400)
    #expect(group["max_ms"] as? Double == 900)
    // Nobody knows which of them lasted so long.
    let long = try Self.run(["--min", "300ms", "a", "--format", "csv"], ["a": lines])
    #expect(long.output.contains(",1,0,0,1,400.000,"))
    #expect(long.errors.contains("--min omits 2 summaries"))
  }

  @Test func stallsOfManyServicesComeFirst() throws {
    let alone = Self.line(id: 1, ms: 9000, culprit: "alone", host: "a")
    let common = (2...6).map { Self.line(id: $0, ms: 800, culprit: "common", host: "h\($0)") }
    let groups = try Self.groups(["a"], ["a": ([alone] + common).joined(separator: "\n")])
    #expect(groups.map { $0["key"] as? String } == ["common", "alone"])
    #expect(groups[0]["hosts"] as? Int == 5)
  }

  @Test(arguments: [
    ("culprit", ["slow", "quick"]), ("cause", ["lock", "io"]), ("service", ["db", "web"]), ("host", ["b", "a"]),
    ("release", ["db 2.0", "web 1.0"]), ("fingerprint", ["v2:00000000000000bb", "v2:0000000000000001"]),
  ])
  func rowsAreGroupedAsRequested(key: String, expected: [String]) throws {
    let lines = [
      Self.line(id: 1, ms: 300, culprit: "quick"),
      Self.line(
        id: 2, ms: 900, culprit: "slow", cause: "lock", service: "db", release: "2.0", host: "b",
        fingerprint: "v2:00000000000000bb"),
    ]
    let groups = try Self.groups(["--by", key, "a"], ["a": lines.joined(separator: "\n")])
    #expect(groups.map { $0["key"] as? String } == expected)
  }

  /// The function and the cause of a row are those of the same stalls, and so is its stack.
  @Test(arguments: ["service", "host", "release", "fingerprint", "cause"])
  func rowHasAFunctionWithItsCause(key: String) throws {
    func line(_ id: Int, _ ms: Double, _ culprit: String, _ cause: String) -> String {
      Self.line(id: id, ms: ms, culprit: culprit, cause: cause, stack: #"[{"symbol":"in \#(culprit)"}]"#)
    }
    let lines = [
      line(1, 500, "wait()", "sleep"), line(2, 500, "pause()", "sleep"), line(3, 800, "remove_duplicates", "running"),
      line(4, 100, "remove_duplicates", "lock"), line(5, 600, "rest()", "sleep"),
    ]
    let groups = try Self.groups(["--by", key, "--stacks", "a"], ["a": lines.joined(separator: "\n")])
    let rows = groups.map { group in
      let stack = group["stack"] as? [[String: Any]]
      return [group["cause"], group["culprit"], stack?.first?["symbol"]].compactMap { $0 as? String }
    }
    let first = ["running", "remove_duplicates", "in remove_duplicates"]
    #expect(
      rows == (key == "cause" ? [["sleep", "rest()", "in rest()"], first, ["lock"] + first.dropFirst()] : [first]))
  }

  @Test func periodBelowADaySaysNothingOfADay() throws {
    func stalls(_ id: Int, minutes: Int) -> String {
      (0...5).map { number in
        let minute = number * minutes
        let time = "2026-11-21T\(10 + minute / 60):\(minute % 60 / 10)\(minute % 10):00"
        return Self.line(id: id + number, ms: 30_000, at: time)
      }.joined(separator: "\n")
    }
    let files = ["old": stalls(1, minutes: 1), "new": stalls(11, minutes: 64)]
    let table = try Self.run(["--diff", "old", "new"], files).output
    #expect(
      table.hasPrefix("old: 6 stalls, 3.00 min in 5.50 min, 1 host\nnew: 6 stalls, 3.00 min in 5.34 h, 1 host\n"),
      "\(table)")
    #expect(table.contains("a period is shorter than a day: totals are compared\n"))
    #expect(!table.contains("per day") && table.contains("× 1.00"), "\(table)")
    let rows = try Self.run(["--diff", "old", "new", "--format", "csv"], files).output
    #expect(rows.contains(",180000.000,180000.000,,,1.000,0,0\r\n"), "\(rows)")
    let json = try Self.run(["--diff", "old", "new", "--format", "json"], files).output
    #expect(!json.contains("per_day") && json.contains(#""span_ms":330000.000"#), "\(json)")
  }

  @Test func startOfADayIsUTCUnlessItHasAnOffset() throws {
    let lines = ["2026-11-20T22:30:00", "2026-11-20T23:30:00", "2026-11-21T00:30:00"].enumerated().map {
      Self.line(id: $0 + 1, at: $1)
    }.joined(separator: "\n")
    for (day, count, said) in [
      ("2026-11-21", 1, "2026-11-21T00:00:00"), ("2026-11-21Z", 1, "2026-11-21T00:00:00"),
      ("2026-11-21+01:00", 2, "2026-11-20T23:00:00"), ("2026-11-21-00:45", 0, "2026-11-21T00:45:00"),
      ("2026-11-21T00:00:00+02:00", 3, "2026-11-20T22:00:00"),
    ] {
      let table = try Self.run(["--since", day, "a"], ["a": lines])
      #expect(table.output.contains(" since \(said)Z\n"), "\(table.output)")
      #expect(table.output.contains(count == 0 ? "no stalls" : "\(count) stall"), "\(table.output)")
      let json = try Self.run(["--since", day, "--format", "json", "a"], ["a": lines]).output
      #expect(json.contains("\"since\":\"\(said).000Z\"") && json.contains("\"stalls\":\(count),"), "\(json)")
    }
    let none = try Self.run(["--since", "2026-11-22", "a"], ["a": lines])
    #expect(none.errors.contains("no stall matches --since 2026-11-22 (00:00 UTC); remove it"), "\(none.errors)")
    let page = try Self.run(["--html", "-", "--since", "2026-11-21", "a"], ["a": lines]).output
    #expect(page.contains(#""since":1795219200"#))
  }

  @Test func linesAreChosenByTimeServiceAndDuration() throws {
    let lines = [
      Self.line(id: 1, at: "2026-11-20T10:00:00", culprit: "old"), Self.line(id: 2, culprit: "db", service: "db"),
      Self.line(id: 3, ms: 100, culprit: "short"), Self.line(id: 4, ms: 1500, culprit: "long", service: "web-2"),
    ].joined(separator: "\n")
    func keys(_ arguments: String...) throws -> Set<String?> {
      Set(try Self.groups(arguments + ["a"], ["a": lines]).map { $0["key"] as? String })
    }
    #expect(try keys("--since", "2026-11-21") == ["db", "short", "long"])
    #expect(try keys("--since", "2026-11-21T11:00:00+01:00") == ["db", "short", "long"])
    #expect(try keys("--since", "2026-11-21T10:00:01Z") == [])
    #expect(try keys("--service", "web*") == ["old", "short", "long"])
    #expect(try keys("--service", "web") == ["old", "short"])
    #expect(try keys("--min", "1.5s") == ["long"])
    let now = Timestamp(seconds: Int(Date().timeIntervalSince1970), nanoseconds: 0).text(fractionDigits: 0)
      .replacingOccurrences(of: "Z", with: "")
    let recent = Self.line(id: 1, at: now, culprit: "now") + "\n" + lines
    #expect(try Self.groups(["--since", "1h", "a"], ["a": recent]).first?["key"] as? String == "now")
  }

  @Test func rotatedPackedAndPipedFilesAreRead() throws {
    let files = ["r.jsonl": Self.line(id: 1), "r.jsonl.1": Self.line(id: 2), "r.jsonl.2": Self.line(id: 3)]
    let pattern = try Self.run(["r.jsonl*", "--format", "csv"], files, after: "gzip r.jsonl.2")
    #expect(pattern.output.contains(",io,3,0,0,1,900.000,"), "\(pattern.output)")
    let piped = try Self.run(["--format", "csv"], input: Self.line(id: 1) + "\n\n" + Self.line(id: 2))
    #expect(piped.output.contains(",io,2,0,0,1,600.000,"))
    let packed = try Self.run(
      ["-", "r.jsonl", "--format", "csv"], files, input: Self.line(id: 9), after: "gzip -f input && mv input.gz input")
    #expect(packed.output.contains(",io,2,0,0,1,600.000,"))
  }

  @Test func packedFileThatIsCutIsReadUpToThere() throws {
    let lines = (1...2000).map { Self.line(id: $0, culprit: "f\($0 * 7919 % 2003)") }.joined(separator: "\n")
    let program = try Self.run(
      ["r.gz", "--format", "json", "--limit", "1"], ["r": lines],
      after: "gzip r && truncate --size=-2000 r.gz")
    #expect(program.status == 1)
    #expect(program.errors.contains(/r\.gz: only [1-9][0-9]* lines could be read: unexpected end/))
    #expect(!program.errors.contains("fd:"))
    #expect(program.errors.split(separator: "unexpected end of file", omittingEmptySubsequences: false).count == 2)
    #expect(program.output.contains(#""group_count":1"#))
  }

  @Test func packedFileOfWhichNothingCanBeReadIsAnError() throws {
    let program = try Self.run(["r.gz"], ["r": Self.line(id: 1)], after: "gzip r && truncate --size=20 r.gz")
    #expect(program.status == 1)
    #expect(program.errors.contains("r.gz: only 0 lines could be read: unexpected end of file"))
    #expect(!program.errors.contains("no lines"))
  }

  @Test func brokenLinesAreSkippedCountedAndNamed() throws {
    let good = Self.line(id: 1)
    let broken = [
      "no JSON", String(good.dropLast(30)), "{}", #"{"event":{"name":"other"}}"#, good + good,
      good.replacingOccurrences(of: "stall.ended", with: "stall.\u{1}"),
      good.replacingOccurrences(of: #""duration_ms":300.0"#, with: #""duration_ms":"x""#),
      good.replacingOccurrences(of: "2026-11-21", with: "2026-13-21"),
      good.replacingOccurrences(of: "0000000000000001\",\"seq", with: "xyz\",\"seq"),
      String(repeating: "x", count: 3 << 20), String(repeating: "[", count: 100_000), "12", "\u{feff}" + good,
    ]
    var text = good + "\n"
    for line in broken { text += line + "\n" + Self.line(id: 100 + line.count) + "\n" }
    let program = try Self.run(["a", "--format", "json"], ["a": text])
    #expect(program.status == 0)
    #expect(program.output.contains("\"skipped\":{\"count\":\(broken.count)"), "\(program.output.prefix(300))")
    #expect(program.errors.contains("stalld report: a, line 2: not a JSON object\n"))
    #expect(program.errors.contains("a, line 20: longer than"))
    #expect(!program.errors.contains("a, line 22"), "ten are named")
    #expect(program.errors.contains("skipped \(broken.count) of"))
    let lost = try Self.run(["a"], ["a": "no\nnone\n"])
    #expect(lost.status == 1)
    #expect(try Self.run(["a"], ["a": ""]).status == 0)
    #expect(try Self.run(["missing", "a"], ["a": good]).status == 1)
    #expect(try Self.run(["missing", "*.none"]).status == 1)
  }

  @Test(arguments: ["table", "folded", "pprof", "speedscope", "firefox", "json", "csv"])
  func timesAndDurationsBeyondTheLimitsAreSkipped(format: String) throws {
    let good = Self.line(id: 1)
    func summary(_ total: String, longest: String = "1", window: String = "1") -> String {
      Self.line(
        "suppressed", id: 2,
        suppressed: #","suppressed":{"count":2,"total_ms":\#(total),"longest_ms":\#(longest),"window_ms":\#(window)}"#)
    }
    let broken =
      ["1600-01-01", "1969-12-31", "2262-01-01", "2300-01-01", "9999-12-31"].map {
        good.replacing("2026-11-21T", with: "\($0)T")
      }
      + ["1e19", "1.7e308", "-1", "1e999"].map {
        good.replacing(#""duration_ms":300.0"#, with: #""duration_ms":\#($0)"#)
      }
      + [
        summary("-1"), summary("1.7e308"), summary("1", longest: "-1"), summary("1", longest: "1e300"),
        summary("1", window: "1e300"), summary("1", window: "-1"),
      ]
    let most = [
      good.replacing("2026-11-21T", with: "2261-12-31T"), good.replacing("2026-11-21T", with: "1970-01-01T"),
      summary("\(2 * 366 * 86_400_000)"),
    ]
    let program = try Self.run(
      ["a", "--graphs", "--format", format], ["a": (most + broken).joined(separator: "\n") + "\n"])
    #expect(program.status == 0, "\(program.errors)")
    #expect(
      program.errors.contains("skipped \(broken.count) of \(broken.count + most.count) lines"), "\(program.errors)")
  }

  @Test func numbersBeyondTheRangeOfIntAreClamped() {
    #expect(Int(clamping: 1e300) == .max)
    #expect(Int(clamping: -.infinity) == .min)
    #expect(Int(clamping: .nan) == 0)
    #expect(Int(clamping: 1.5) == 2)
  }

  @Test func everyCutOfALineIsSkippedOrRead() throws {
    let line = Array(Self.line(id: 1, culprit: "ü\\u00e9\\\"").utf8)
    for end in line.indices {
      for byte: UInt8? in [nil, 0, 0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d, 0xff, 0x2c] {
        // Each in memory of its own, so that a load beyond its end is found.
        var changed = byte == nil ? Array(line[..<end]) : line
        if let byte { changed[end] = byte }
        var pass = ReportPass()
        changed.withUnsafeBufferPointer { pass.read($0, file: "f", fileIndex: 0, number: 1) }
        #expect(pass.skipped.count + pass.stalls.count == (end == 0 && byte == nil ? 0 : 1))
        if byte == nil { #expect(pass.stalls.count == 0) }
      }
    }
  }

  /// Texts and stacks are numbers, which each thread gives for itself.
  @Test func mergedPassesAreOnePass() throws {
    func pass(_ lines: [String]) -> ReportPass {
      var pass = ReportPass()
      for (number, line) in lines.enumerated() {
        Array(line.utf8).withUnsafeBufferPointer { pass.read($0, file: "f", fileIndex: 0, number: number + 1) }
      }
      return pass
    }
    /// What each stall says, with texts in place of their numbers.
    func stalls(of pass: ReportPass) throws -> [[String]] {
      let numbers = ["stack", "group", "count", "sequence"]
      return try pass.stalls.map { stall in
        let causes = ["cause: \(pass.causes[Int(stall.cause)])"]
        return try causes
          + Mirror(reflecting: stall).children.filter { $0.label != "cause" && $0.label != "group" }.map { child in
            let label = try #require(child.label)
            if label == "stack" {
              return "stack: "
                + pass.stacks[stall.stack].map { pass.texts[pass.stacks.frames[Int($0)].symbol] }.joined(separator: ";")
            }
            guard !numbers.contains(label), let number = child.value as? UInt32 else {
              return "\(label): \(child.value)"
            }
            #expect(number != 0, "the line has no \(label)")
            return "\(label): \(pass.texts[number])"
          }
      }
    }
    func line(_ id: Int) -> String {
      Self.line(
        id: id, culprit: "function \(id)", cause: "cause\(id)", service: "service \(id)", release: "\(id).0",
        host: "host \(id)", fingerprint: "v2:000000000000000\(id)"
      ).replacing(#""loop":{"name":"main""#, with: #""loop":{"name":"loop \#(id)""#)
    }
    var merged = pass([line(1), line(2)])
    merged.merge(pass([line(4), line(3), line(1)]))
    let one = pass([line(1), line(2), line(4), line(3), line(1)])
    #expect(try stalls(of: merged) == stalls(of: one))
    #expect(one.stalls.count == 4)
  }

  @Test func hostileNamesDoNotReachTheTerminal() throws {
    let evil = #"\u001b]0;owned\u0007\u202eevil\u2028\u009b31m 漢字 \ud83d\ude00"#
    let stack = #"[{"symbol":"\#(evil)","file":"/a\u001b[2J"}]"#
    let text = Self.line(id: 1, culprit: evil, cause: #"io\u001b"#, service: evil, host: evil, stack: stack)
    for format in ["table", "csv", "json"] {
      let scratch = try ScratchDirectory()
      try Data(text.utf8).write(to: scratch.url.appending(path: "a"))
      // A terminal of script(1)'s.
      let stalld = try Program.built("stalld", "debug").path
      let command = "NO_COLOR=1 \(stalld) report --by service --stacks --format \(format) \(scratch.url.path)/a"
      let program = try Program.run("/usr/bin/script", ["-qec", command, "/dev/null"])
      #expect(program.output.contains("漢字 😀"), "\(program.output)")
      for scalar in program.output.unicodeScalars {
        #expect(scalar == "\r" || scalar == "\n" || scalar.value >= 0x20, "\(format)")
        #expect(!["\u{202e}", "\u{2028}", "\u{9b}", "\u{7f}"].contains(scalar), "\(format)")
      }
    }
  }

  @Test func coloursAndPicturesAreForTerminals() throws {
    let text = Self.line(id: 1) + "\n" + Self.line(id: 2, ms: 5000, culprit: String(repeating: "long", count: 60))
    let plain = try Self.run(["a"], ["a": text])
    #expect(!plain.output.contains("\u{1b}") && !plain.output.contains("█"))
    #expect(plain.output.contains(String(repeating: "long", count: 60)))
    #expect(try Self.run(["a", "--graphs"], ["a": text]).output.contains("█"))
    let scratch = try ScratchDirectory()
    try Data(text.utf8).write(to: scratch.url.appending(path: "a"))
    let command = "stty cols 90 rows 40; \(try Program.built("stalld", "debug").path) report \(scratch.url.path)/a"
    let shown = try Program.run(
      "/usr/bin/script", ["-qec", command, "/dev/null"], environment: ["TERM": "xterm", "NO_COLOR": ""])
    #expect(shown.output.contains("\u{1b}[") && shown.output.contains("█"))
    for line in shown.output.replacing(/\u{1b}\[[0-9]*m/, with: "").split(whereSeparator: \.isNewline) {
      #expect(TerminalText.width(String(line)) <= 90, "\(line)")
    }
  }

  /// `COLUMNS` comes before the size of the terminal.
  @Test func tableFitsTheTerminal() throws {
    let long = String(repeating: "long", count: 40)
    let lines = (1...3).map {
      Self.line(
        id: $0, ms: 123_456, at: "2026-11-\(20 + $0)T10:00:00", culprit: long + "\($0)", service: "service-" + long,
        release: "1.\($0)", host: "host-" + long)
    }
    let scratch = try ScratchDirectory()
    try Data(lines.joined(separator: "\n").utf8).write(to: scratch.url.appending(path: "a"))
    try Data(lines[0].utf8).write(to: scratch.url.appending(path: "b"))
    let commands =
      Grouping.allCases.map { "--by \($0) --stacks --since 2026-11-01 a" } + ["a missing", "--diff a b", "--diff b a"]
    for columns in [24, 40, 60, 80, 100, 132, 200] {
      // stty counts where COLUMNS is not set.
      let size = columns % 3 == 0 ? "stty cols \(columns); unset COLUMNS" : "stty cols 999; export COLUMNS=\(columns)"
      let script = size + "\n" + commands.map { "\"$stalld\" report \($0) 2>/dev/null" }.joined(separator: "\n")
      let shown = try Program.run(
        "/usr/bin/script", ["-qec", script, "/dev/null"],
        environment: ["TERM": "dumb", "stalld": Program.built("stalld", "debug").path], in: scratch.url)
      let rows = shown.output.split(whereSeparator: \.isNewline)
      #expect(rows.count > 60, "\(shown.output)")
      for row in rows { #expect(TerminalText.width(String(row)) <= columns, "\(row)") }
      #expect(rows.contains { $0.contains(" total") && $0.contains("stalls") })
    }
  }

  @Test func readerThatExitsIsNoFailure() throws {
    let lines = (1...3000).map { Self.line(id: $0, culprit: "f\($0)") }.joined(separator: "\n")
    let scratch = try ScratchDirectory()
    try Data(lines.utf8).write(to: scratch.url.appending(path: "a"))
    let stalld = try Program.built("stalld", "debug").path
    let program = try Program.run(
      "/bin/bash", ["-c", "\(stalld) report --limit 3000 --stacks \(scratch.url.path)/a | head -1"])
    #expect(program.errors == "")
  }

  @Test func twoFilesOrReleasesAreCompared() throws {
    func day(_ release: String, _ day: Int, _ stalls: [(String, Double)]) -> String {
      stalls.enumerated().map { index, stall in
        Self.line(
          id: day * 100 + index, ms: stall.1, at: "2026-11-\(day + index)T10:00:00", culprit: stall.0,
          release: release)
      }.joined(separator: "\n")
    }
    let old = day("1.0", 10, [("gone", 400), ("worse", 400), ("better", 900), ("same", 500), ("same", 500)])
    let new = day("1.1", 20, [("new", 400), ("worse", 900), ("better", 400), ("same", 500), ("same", 500)])
    let files = ["old": old, "new": new, "both": old + "\n" + new]
    for arguments in [["--diff", "old", "new"], ["--diff", "release:1.0", "release:1.1", "both"]] {
      let program = try Self.run(arguments + ["--format", "csv"], files)
      let rows = program.output.split(separator: "\r\n").dropFirst().map {
        $0.split(separator: ",")[..<4].joined(separator: ",")
      }
      #expect(rows == ["worse,worse,1,1", "new,new,0,1", "better,better,1,1", "gone,gone,1,0", "same,same,2,2"])
      let table = try Self.run(arguments, files).output
      #expect(table.contains("× 2.25"), "\(table)")
      // A row has the same members in each format; what is new has no factor.
      let names = program.output.prefix { $0 != "\r\n" }.split(separator: ",").dropFirst().map(String.init)
        .filter { !$0.hasSuffix("_unreadable_inputs") }
      let json = try Self.run(arguments + ["--format", "json"], files).output
      let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
      let changes = try #require(object?["changes"] as? [[String: Any]])
      #expect(changes[0].keys.sorted() == (names + ["key"]).sorted())
      #expect(changes.map { $0["factor"] as? Double } == [2.25, nil, 0.444, 0, 1])
    }
    let missing = try Self.run(["--diff", "release:1.0", "release:2.0", "both"], files)
    #expect(missing.status == 1)
    #expect(missing.errors == "stalld report: no stall is of release 2.0; releases in the input: 1.0, 1.1\n")
    let unversioned = try Self.run(
      ["--diff", "release:1.0", "release:2.0", "none"],
      ["none": SampleReport().text.replacing(/,"version":"[^"]*"/, with: "") + "\n"])
    #expect(unversioned.status == 1 && unversioned.errors.hasSuffix("releases in the input: none\n"), "\(unversioned)")
    for wrong in [
      ["--diff", "old"], ["--diff", "old", "release:1"], ["--diff", "old", "new", "both"], ["--limit", "0"],
      ["--since", "soon"], ["--min", "3"], ["--min", "3m"],
    ] {
      #expect(try Self.run(wrong, files).status == 64)
    }
  }

  /// The function that waits is outside of what is on the stack.
  @Test func functionsThatWaitAreInEachFormat() throws {
    let caller =
      #",{"symbol":"web.route() async -> ()","file":"/src/Sources/web/Routes.swift","line":9,"async":true}]}"#
    let line = SampleReport().text.replacing("]}", with: caller, maxReplacements: 1) + "\n"
    let table = try Self.run(["a", "--stacks"], ["a": line])
    #expect(table.output.contains("    async route() (Routes.swift:9)\n"), "\(table.output)")
    let whole = try Self.run(["a", "--all-frames"], ["a": line])
    #expect(whole.output.contains("async web.route() async -> () (Routes.swift:9)"), "\(whole.output)")
    let frames = (0..<40).map { #",{"symbol":"web.deep\#($0)() -> ()"}"# }.joined()
    let deep = try Self.run(
      ["a", "--all-frames"],
      ["a": SampleReport().text.replacing("]}", with: frames + "]}", maxReplacements: 1) + "\n"])
    #expect(deep.output.contains("web.deep39() -> ()") && !deep.output.contains(" more"), "\(deep.output)")
    let json = try Self.run(["a", "--stacks", "--format", "json"], ["a": line])
    #expect(json.output.contains(#""line":9,"async":true}"#), "\(json.output)")
    let folded = try Self.run(["a", "--format", "folded"], ["a": line])
    let (outer, inner) = (folded.output.firstRange(of: "web.route()"), folded.output.firstRange(of: "web.Pool.take()"))
    #expect(try #require(outer).lowerBound < #require(inner).lowerBound)
  }

  @Test func realLinesAreRead() throws {
    let victim = try Program.run(
      Program.built("StallVictim", "debug").path, ["sleep", "900"], environment: ["STALLMONITOR_THRESHOLD": "100ms"])
    let program = try Self.run(["a", "--stacks", "--format", "json"], ["a": victim.output])
    #expect(program.output.contains(#""key":"StallVictim.blockBySleeping() -> Swift.Int32""#))
    #expect(program.output.contains(#""skipped":{"count":0"#))
    #expect(program.output.contains(#""symbol":"StallVictim.blockBySleeping() -> Swift.Int32","file":"#))
  }
}
