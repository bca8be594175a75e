import Testing

@testable import stalld

@Suite("The scanner of lines from services")
struct LineScannerTests {
  private func scan(_ text: String) throws -> (LineScanner.Parts, [UInt8]) {
    let bytes = Array(text.utf8)
    return (try bytes.withUnsafeBufferPointer { try LineScanner.scan($0) }, bytes)
  }

  @Test("the scanner returns the right range for each part of a report")
  func parts() throws {
    let (parts, bytes) = try scan(
      #" { "event" : {"schema":"1.0","name":"stall.started","dropped":3}, "log.level":"warn","stall":{"x":{"id":"no"},"id":"ab","sequence":7,"#
        + #""duration_ms":1.5e2,"cause":"io"},"service":{"name":"a\"b"},"process":{"pid":1,"executable":{"path":"/x"}},"n":[1,-0.5,true,null,"ü€𝄞"]} "#
    )
    func text(_ range: Range<Int>?) -> String? { range.map { String(decoding: bytes[$0], as: UTF8.self) } }
    #expect(parts.kind == .report)
    #expect(text(parts.eventName) == #""stall.started""#)
    #expect(text(parts.dropped) == "3")
    #expect(text(parts.level) == #""warn""#)
    #expect(text(parts.stallID) == #""ab""#)
    #expect(text(parts.sequence) == "7")
    #expect(text(parts.duration) == "1.5e2")
    #expect(text(parts.cause) == #""io""#)
    #expect(text(parts.serviceName) == #""a\"b""#)
    #expect(text(parts.process) == #""process":{"pid":1,"executable":{"path":"/x"}}"#)
    #expect(text(parts.executable) == #"{"path":"/x"}"#)
  }

  @Test(
    "a line that is not one JSON object, or is ambiguous, is refused",
    arguments: [
      "", "[]", "1", "{", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a":1}{}"#, #"{"a":01}"#, #"{"a":1.}"#, #"{"a":+1}"#,
      #"{"a":tru}"#,
      #"{"a":"\x"}"#, #"{"a":"\u12g4"}"#, "{\"a\":\"\u{1}\"}", #"{"a":"#, #"{"a":"b}"#, #"{'a':1}"#, #"{"a":NaN}"#,
      #"{"process":{"pid":1},"process":{"pid":2}}"#, #"{"pr\u006fcess":{"pid":1}}"#, #"{"process":{"pid":1,"pid":2}}"#,
      #"{"process.pid":1}"#, #"{"systemd":{"unit":"a"}}"#,
    ])
  func refused(text: String) {
    #expect(throws: LineScanner.Fault.self) { _ = try scan(text) }
  }

  @Test("an object with very many keys is refused before they are compared")
  func keys() throws {
    func line(_ count: Int, _ place: String) -> String {
      let members = (0..<count).map { #""k\#($0)":0"# }.joined(separator: ",")
      return place.isEmpty ? "{\(members)}" : #"{"\#(place)":{\#(members)}}"#
    }
    for place in ["", "stall", "process", "event"] {
      let fault = #expect(throws: LineScanner.Fault.self) { _ = try scan(line(64_000, place)) }
      #expect(fault?.reason == "an object with more than 128 members")
      _ = try scan(line(100, place))
    }
    // What is not compared costs what its length costs.
    _ = try scan(line(64_000, "other"))
  }

  @Test(
    "impossible numbers are refused",
    arguments: [
      (#"{"stall":{"duration_ms":-1}}"#, "duration_ms is negative"),
      (#"{"stall":{"duration_ms":4e10}}"#, "duration_ms is longer than a year"),
      (#"{"stall":{"duration_ms":1e999}}"#, "duration_ms is longer than a year"),
      (#"{"stall":{"threshold_ms":-0.5}}"#, "threshold_ms is negative"),
      (#"{"stall":{"samples":-1}}"#, "samples is negative"),
      (#"{"stall":{"evidence":{"cpu_ms":-1}}}"#, "cpu_ms is negative"),
      (#"{"stall":{"evidence":{"pressure":{"io_ms":-1}}}}"#, "io_ms is negative"),
      (#"{"call_tree":{"samples":-1}}"#, "samples is negative"),
      (#"{"call_tree":{"weight_ms":1e999}}"#, "weight_ms is longer than a year"),
      (#"{"stall":{"suppressed":{"count":-1}}}"#, "count is negative"),
      (#"{"stall":{"suppressed":{"total_ms":1e11}}}"#, "total_ms is longer than a year"),
      (#"{"event":{"dropped":-7}}"#, "dropped is negative"),
      (#"{"event":{"dropped":9223372036854775807}}"#, "dropped is too large"),
      (#"{"frames_omitted":-1}"#, "frames_omitted is negative"),
    ])
  func numbers(text: String, reason: String) throws {
    let fault = #expect(throws: LineScanner.Fault.self) { _ = try scan(text) }
    #expect(fault?.reason == reason)
    // A year is a time, and what later versions may say is not ours to judge.
    _ = try scan(#"{"stall":{"duration_ms":31536000000,"offset":-1,"evidence":{"lean":-1}},"temperature":-5}"#)
  }

  @Test("nesting is bounded")
  func nesting() {
    for depth in [40, 200_000] {
      #expect(throws: LineScanner.Fault.self) {
        _ = try scan(#"{"a":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}")
      }
    }
  }

  @Test(
    "text that is not UTF-8 is refused",
    arguments: [
      [0x80], [0xc0, 0x80], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xff], [0xe2, 0x82],
      [0xc3],
    ] as [[UInt8]])
  func notUTF8(bytes: [UInt8]) {
    let line = Array(#"{"a":""#.utf8) + bytes + Array(#""}"#.utf8)
    #expect(throws: LineScanner.Fault.self) { try line.withUnsafeBufferPointer { _ = try LineScanner.scan($0) } }
  }

  @Test(
    "the kernel's values replace the line's",
    arguments: [
      (
        #"{"process":{"pid":1,"user":{"id":"0"},"executable":{"path":"/x"}},"b":2}"#,
        #"{"process":{"pid":42,"user":{"id":"7"},"group":{"id":"8"},"linux":{"cgroup":"/system.slice/web.service"},"reported_pid":1,"executable":{"path":"/x"}},"systemd":{"unit":"web.service"},"b":2}"#
      ),
      (
        #"{"b":2 } "#,
        #"{"b":2 ,"process":{"pid":42,"user":{"id":"7"},"group":{"id":"8"},"linux":{"cgroup":"/system.slice/web.service"}},"systemd":{"unit":"web.service"}}"#
      ),
      (
        #"{"process":"none"}"#,
        #"{"process":{"pid":42,"user":{"id":"7"},"group":{"id":"8"},"linux":{"cgroup":"/system.slice/web.service"}},"systemd":{"unit":"web.service"}}"#
      ),
    ])
  func stamp(line: String, expected: String) throws {
    let stamp = Stamp(Peer(pid: 42, uid: 7, gid: 8, cgroup: "/system.slice/web.service"))
    let bytes = Array(line.utf8)
    let stamped = try bytes.withUnsafeBufferPointer { stamp.apply(to: $0, try LineScanner.scan($0)) }
    #expect(String(decoding: stamped, as: UTF8.self) == expected + "\n")
  }

  @Test("a report that is cut anywhere, or has a changed byte, is refused or scanned, without a crash")
  func damaged() throws {
    let line = Array(
      #"{"@timestamp":"x","log.level":"warn","event":{"name":"stall.started"},"stall":{"id":"a","sequence":1,"evidence":{"a":[1,2.5e-3]}},"process":{"pid":1},"m":"ü\u00e9"}"#
        .utf8)
    for end in line.indices {
      #expect(throws: LineScanner.Fault.self) {
        try Array(line[..<end]).withUnsafeBufferPointer { _ = try LineScanner.scan($0) }
      }
      for byte: UInt8 in [0, 0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0xff, 0x2c] {
        var changed = line
        changed[end] = byte
        _ = try? changed.withUnsafeBufferPointer { try LineScanner.scan($0) }
      }
    }
  }

  @Test("the identity of a written report includes its unit")
  func writtenReport() {
    let line =
      #"{"event":{"name":"stall.ongoing"},"stall":{"id":"000000000000000000000000000000ff","sequence":3},"process":{"user":{"id":"33"}},"systemd":{"unit":"web.service"}}"#
    let identities = WrittenReports.identities(in: Array(line.utf8))
    #expect(identities.map(\.sequence) == [3])
    #expect(identities.map(\.low) == [0xff])
    #expect(identities.map(\.user) == [33])
  }
}
