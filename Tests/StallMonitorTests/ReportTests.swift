import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

struct ReportTests {
  private func report(frames: Int, symbolLength: Int = 40, threads: Int = 0) -> StallReport.Report {
    let stack = (0..<frames).map { index in
      StackFrame(
        symbol: "f\(index)_" + String(repeating: "é", count: symbolLength / 2), file: "/src/a.swift", line: index + 1,
        module: "/usr/bin/host", buildID: "0123456789abcdef", offset: UInt64(index) * 16)
    }
    return StallReport.Report(
      time: Timestamp(seconds: 1, nanoseconds: 2), event: .ended, stallID: String(repeating: "0a", count: 16),
      sequence: 3, thresholdNanoseconds: 250_000_000, durationNanoseconds: 1_234_567_890,
      verdict: Verdict(cause: .lock, evidence: Verdict.Evidence(state: "blocked", wait: "futex(wait)")),
      culprit: stack.first, fingerprint: Culprit.fingerprint(of: stack), samples: 4,
      loop: .init(name: "main", kind: .loop, mode: "default", phase: .afterWaiting, callout: nil), threadID: 7,
      threadName: "host",
      origin: .init(
        processID: 7, executablePath: "/usr/bin/host", executableBuildID: "0123456789abcdef", serviceName: "host",
        serviceVersion: nil, hostName: "h"), stack: stack,
      threads: (0..<threads).map { .init(id: Int32($0 + 1), name: "t", role: .lockHolder, stack: stack) })
  }

  @Test(arguments: [0, 1, 20, 60, 2048], [0, 1, 3])
  func lineIsWholeAndShortEnough(frames: Int, threads: Int) throws {
    let report = report(frames: frames, threads: threads)
    let line = report.line()
    #expect(line.count <= 8000)
    #expect(line.last == UInt8(ascii: "\n"))
    #expect(line.count { $0 == UInt8(ascii: "\n") } == 1)
    try ReportSchema.expectValid(Data(line))
    let read = try WrittenReport(Data(line))
    let shown =
      read.stack.count
      + (read["threads"] as? [[String: Any]] ?? []).reduce(0) {
        $0 + (($1["stack"] as? [Any])?.count ?? 0)
      }
    #expect(shown + (read["frames_omitted"] as? Int ?? 0) == frames * (1 + threads))
    if frames > 60 { #expect(line.count > 7000, "the room is used") }
  }

  /// The functions of a library have long names, and are on both sides of it.
  @Test(arguments: [0, 20, 39])
  func frameOfTheResponsibleFunctionStays(index: Int) throws {
    var report = report(frames: 40)
    for other in report.stack.indices {
      report.stack[other].symbol = String(repeating: "x", count: 500)
      report.stack[other].owner = .system
    }
    (report.stack[index].symbol, report.stack[index].owner) = ("culprit()", .host)
    (report.stack[index].file, report.stack[index].line) = ("/service/main.swift", 12)
    let line = report.line()
    #expect(line.count <= 8000 && line.count > 7000)
    let read = try WrittenReport(Data(line))
    let shown = try #require(read.stack.first { $0["symbol"] as? String == "culprit()" })
    #expect(shown["line"] as? Int == 12)
    #expect(read.stack.count + (read["frames_omitted"] as? Int ?? 0) == 40)
  }

  @Test func otherThreadsStackSaysWhatIsMissing() throws {
    var report = report(frames: 3, threads: 3)
    report.threads[0].stack = []
    report.threads[0].captureFailure = .signalBlocked
    report.threads[1].isApproximate = true
    let line = report.line()
    try ReportSchema.expectValid(Data(line))
    let captures = try #require(try WrittenReport(Data(line))["threads"] as? [[String: Any]]).map {
      $0["capture"] as? [String: Any]
    }
    #expect(captures[0]?["failure"] as? String == "the thread runs with the capture signal blocked")
    #expect(captures[1]?["approximate"] as? Bool == true && captures[1]?.count == 1)
    #expect(captures[2] == nil)
  }

  @Test func middleFramesGoFirst() throws {
    let read = try WrittenReport(Data(report(frames: 200).line()))
    let lines = read.stack.compactMap { $0["line"] as? Int }
    #expect(lines.first == 1)
    #expect(lines.last == 200)
    // Consecutive at both ends, with one gap.
    #expect(zip(lines, lines.dropFirst()).count { $1 != $0 + 1 } == 1)
  }

  @Test func longSymbolsAreCutAtACharacter() throws {
    let line = report(frames: 30, symbolLength: 6001).line()
    #expect(line.count <= 8000)
    let read = try WrittenReport(Data(line))
    #expect((read.stack.first?["symbol"] as? String)?.hasSuffix("é…") == true)
  }

  @Test func textIsEscaped() throws {
    var line = JSONWriter()
    let text = "a\"b\\c\n\t\u{0}\u{7f}é\u{1F600}"
    line.member("k", text)
    let object = try JSONSerialization.jsonObject(with: Data(line.terminated())) as? [String: String]
    #expect(object?["k"] == text)
  }

  @Test(arguments: [
    (0, "1970-01-01T00:00:00.000000005Z"), (951_782_400, "2000-02-29T00:00:00.000000005Z"),
    (1_709_251_199, "2024-02-29T23:59:59.000000005Z"), (1_795_235_735, "2026-11-21T04:35:35.000000005Z"),
    (4_102_444_799, "2099-12-31T23:59:59.000000005Z"),
  ])
  func timestamps(seconds: Int, text: String) {
    #expect(Timestamp(seconds: seconds, nanoseconds: 5).text == text)
  }

  @Test func timestampsAgreeWithFoundation() {
    let formatter = ISO8601DateFormatter()
    for day in stride(from: 0, through: 60_000, by: 17) {
      let seconds = day * 86_400 + day % 86_400
      let expected = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
      #expect(Timestamp(seconds: seconds, nanoseconds: 0).text == expected.replacing("Z", with: ".000000000Z"))
    }
  }

  @Test func fingerprintIsOfTheHostsOwnFramesAlone() {
    func stack(leaf: String, offset: UInt64) -> [StackFrame] {
      [
        StackFrame(symbol: leaf, module: "/lib/libc.so.6", offset: offset, owner: .system),
        StackFrame(symbol: "work()", module: "/usr/bin/host", offset: offset, owner: .host),
        StackFrame(symbol: "thunk", module: "/usr/bin/host", offset: offset, owner: .host, isCompilerGenerated: true),
        StackFrame(symbol: "main", module: "/usr/bin/host", offset: offset, owner: .host),
      ]
    }
    let a = Culprit.fingerprint(of: stack(leaf: "read", offset: 1))
    #expect(a == Culprit.fingerprint(of: stack(leaf: "poll", offset: 2)))
    // A published value: it must not change while the rule is v2.
    #expect(a == "v2:a5fe247d5c1a87e3")
    #expect(Culprit.frame(of: stack(leaf: "read", offset: 1))?.symbol == "work()")
  }
}
