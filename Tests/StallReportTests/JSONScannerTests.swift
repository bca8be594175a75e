import Testing

@testable import StallReport

/// What the one reader of JSON takes and refuses; all others are made of it.
struct JSONScannerTests {
  private func scan(_ bytes: [UInt8], requiresUTF8: Bool = true) throws(JSONScanner.Fault) {
    try bytes.withUnsafeBufferPointer { (buffer) throws(JSONScanner.Fault) in
      var json = JSONScanner(buffer, requiresUTF8: requiresUTF8)
      try json.skipValue()
      try json.end()
    }
  }

  private func scan(_ text: String) throws(JSONScanner.Fault) { try scan(Array(text.utf8)) }

  @Test(arguments: [
    "{}", "[]", " {\t\"a\" :\r\n1 , \"a\":[ ] } ", "[1,-0.5e+3,0,-0,1E9,true,false,null]", "\"\"",
    #""\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00""#, #""\ud83d""#, "\"é…😀\u{7f}\"", #"{"":{"":[[],{}]}}"#,
  ])
  func takesWhatIsJSON(text: String) throws { try scan(text) }

  @Test(arguments: [
    ("", 0), (" ", 1), ("{", 1), ("[", 1), ("{\"a\"}", 4), ("{\"a\":}", 5), ("{a:1}", 1), ("{\"a\":1,}", 7),
    ("[1,]", 3),
    ("[1 2]", 3), ("{\"a\":1 \"b\":2}", 7), ("{} {}", 3), ("01", 2), ("1.", 2), ("-", 1), ("+1", 0), (".5", 0),
    ("1e", 2),
    ("tru", 0), ("truex", 4), ("NaN", 0), ("'a'", 0), (#""\x""#, 1), (#""\u12g4""#, 1), (#""\u12"#, 1),
    ("\"\u{1}\"", 1),
    ("\"a", 0), ("\"a\\", 2), ("[\"a\\\"]", 1),
  ])
  func refusesWhatIsNot(text: String, position: Int) {
    let fault = #expect(throws: JSONScanner.Fault.self) { try scan(text) }
    #expect(fault?.position == position, "\(fault?.reason ?? "")")
  }

  @Test("an unterminated string is found at every alignment of its end")
  func stringsOfEveryLength() throws {
    for length in 0..<40 {
      let plain = String(repeating: "x", count: length)
      try scan("[\"\(plain)\"]")
      try scan("[\"\(plain)\\n\(plain)é\"]")
      #expect(throws: JSONScanner.Fault.self) { try scan("[\"\(plain)") }
      #expect(throws: JSONScanner.Fault.self) { try scan("[\"\(plain)\n\"]") }
    }
  }

  @Test(
    arguments: [
      [0x80], [0xc0, 0xaf], [0xc3], [0xe0, 0x80, 0xaf], [0xed, 0xa0, 0x80], [0xf0, 0x80, 0x80, 0xaf],
      [0xf5, 0x80, 0x80, 0x80],
      [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x28, 0xa1], [0xff],
    ] as [[UInt8]])
  func textIsUTF8(bytes: [UInt8]) throws {
    let text = [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
    let fault = #expect(throws: JSONScanner.Fault.self) { try scan(text) }
    #expect(fault?.reason == "not UTF-8")
    try scan(text, requiresUTF8: false)
    #expect(try JSONText(text).string(JSONText(text).root)?.contains("\u{fffd}") == true)
  }

  @Test func nestingIsBounded() throws {
    func nested(_ depth: Int, _ inner: String) -> String {
      String(repeating: "[", count: depth) + inner + String(repeating: "]", count: depth)
    }
    try scan(nested(32, "1"))
    try scan(nested(33, ""))
    for text in [nested(33, "1"), nested(34, ""), nested(100_000, "")] {
      let fault = #expect(throws: JSONScanner.Fault.self) { try scan(text) }
      #expect(fault?.reason == "nested too deep")
      #expect(throws: JSONScanner.Fault.self) { _ = try JSONText(Array(text.utf8)) }
    }
  }

  @Test("each load is within the bytes: every prefix of a text is read without a byte beyond it")
  func beginnings() {
    let line = Array(#"{"a":["é\u00e9\n",-1.5e+3,true,{"b":null}],"cdefghijklmnop":"qrstuvwxyz"}"#.utf8)
    for end in 0..<line.count {
      let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: end)
      defer { buffer.deallocate() }
      _ = buffer.initialize(from: line[..<end])
      var json = JSONScanner(UnsafeBufferPointer(buffer))
      #expect(throws: JSONScanner.Fault.self) { try json.skipValue() }
    }
  }

  @Test func keysAreComparedAsTheyAreWritten() throws {
    let text = Array(#"{"name":1,"na\u006de":2}"#.utf8)
    try text.withUnsafeBufferPointer { buffer in
      var json = JSONScanner(buffer)
      #expect(try json.beginObject())
      let first = try json.key()
      #expect(json.is(first, "name") && !json.is(first, "names") && !first.hasEscapes)
      try json.skipValue()
      #expect(try json.nextMember())
      let second = try json.key()
      #expect(!json.is(second, "name") && second.hasEscapes && !json.areEqual(first, second))
      #expect(JSONValues.string(UnsafeBufferPointer(rebasing: buffer[second.range])) == "name")
      try json.skipValue()
      #expect(try !json.nextMember())
      try json.end()
    }
  }

  @Test func treesSayWhatIsWhere() throws {
    let text = try JSONText(Array(#" {"a":1.50,"b":[true,"x"],"a":2}"#.utf8))
    #expect(text.root.range == 1..<32)
    #expect(text.root["a"].map { String(decoding: text.bytes[$0.range], as: UTF8.self) } == "1.50")
    #expect(text.isTrue(text.root["b"]?.elements?.first) && text.string(text.root["b"]?.elements?.last) == "x")
    guard case .object(let members, _) = text.root else { return #expect(Bool(false)) }
    #expect(
      members.map { String(decoding: text.bytes[$0.member], as: UTF8.self) } == [
        #""a":1.50"#, #""b":[true,"x"]"#, #""a":2"#,
      ])
  }

  @Test(arguments: [
    ("0", 0), ("250.125", 250.125), ("-3", -3), ("1e3", 1000), ("12345678901234567890", 12_345_678_901_234_567_168),
    ("0.000001", 0.000001),
  ])
  func numbers(text: String, value: Double) {
    var text = text
    #expect(text.withUTF8 { JSONValues.number($0) } == value)
  }

  @Test(arguments: ["", "true", "1e999", "\"1\"", "[1]"])
  func otherValuesAreNoNumbers(text: String) {
    var text = text
    #expect(text.withUTF8 { JSONValues.number($0) } == nil)
  }
}
