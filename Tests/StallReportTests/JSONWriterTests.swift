import Testing

@testable import StallReport

struct JSONWriterTests {
  private func text(_ writer: JSONWriter) -> String { String(decoding: writer.bytes, as: UTF8.self) }

  @Test func membersAndValues() {
    var line = JSONWriter()
    line.member("text", "a")
    line.member("none", nil as String?)
    line.member("number", -3)
    line.member("no", bool: false)
    line.member("left_out", ifTrue: false)
    line.member("ms", milliseconds: 1_234_567_890)
    line.member("share", share: 0.666)
    line.object("empty") { _ in }
    line.object("required", required: true) { _ in }
    line.object("inner") { $0.object("innermost") { $0.member("a", 1) } }
    line.array("strings", ["a", "b"])
    line.array("numbers", [1, 2])
    line.array("times", milliseconds: [1_000_000, 499])
    line.array(
      "objects",
      [
        JSONWriter(),
        {
          var one = JSONWriter(); one.member("a", 1); return one
        }(),
      ])
    line.key("values")
    line.array { json in
      json.null()
      json.value(1.25)
      json.value(nil as Double?)
      json.value(true)
      json.object { $0.member("a", 1) }
    }
    let expected =
      #""text":"a","number":-3,"no":false,"ms":1234.568,"share":0.67,"required":{},"inner":{"innermost":{"a":1}},"#
      + #""strings":["a","b"],"numbers":[1,2],"times":[1.000,0.000],"objects":[{},{"a":1}],"#
      + #""values":[null,1.25,null,true,{"a":1}]"#
    #expect(text(line) == expected)
    #expect(line.terminated() == Array("{\(expected)}\n".utf8))
    var both = JSONWriter()
    both.member("first", 1)
    both.append(members: JSONWriter())
    both.append(members: line)
    #expect(text(both) == "\"first\":1," + expected)
  }

  @Test("an object that stays empty writes nothing, not even a comma")
  func emptyObjects() {
    var line = JSONWriter()
    line.object("a") { $0.object("b") { _ in } }
    #expect(line.bytes.isEmpty)
    line.member("c", 1)
    line.object("d") { _ in }
    line.member("e", 2)
    #expect(text(line) == #""c":1,"e":2"#)
  }

  @Test func stringsOfLines() {
    let hostile = "\"\\/\u{0}\n\u{1b}\u{7f}é…😀<>&\u{2028}"
    #expect(
      JSONWriter.quoted(hostile)
        == Array(#""\"\\/\u0000\u000a\u001b\u007fé…😀<>&"#.utf8) + Array("\u{2028}\"".utf8))
  }

  @Test func stringsOfPages() {
    var page = JSONWriter(escaping: .page)
    page.value("</script>&\u{2027}\u{2028}\u{2029}\u{202a}…\"\\\u{7f}")
    #expect(
      text(page)
        == #""\u003c/script\u003e\u0026"# + "\u{2027}" + #"\u2028\u2029"# + "\u{202a}…" + #"\"\\\u007f""#)
  }

  @Test("every written value is read back unchanged")
  func writtenIsRead() throws {
    for escaping in [JSONWriter.Escaping.line, .page] {
      for scalar in (0..<0x2030 as Range<UInt32>).compactMap(Unicode.Scalar.init) {
        let text = "x\(Character(scalar))y"
        var writer = JSONWriter(escaping: escaping)
        writer.value(text)
        let read = try JSONText(writer.bytes)
        #expect(read.string(read.root) == text)
      }
    }
  }

  @Test func numbersOfPages() {
    func written(_ number: Double) -> String {
      var writer = JSONWriter()
      writer.value(number)
      return text(writer)
    }
    #expect(
      [0, 1, -1.5, 0.0004, 12.3456, 1e14, .nan, .infinity, 1e15].map(written)
        == ["0", "1", "-1.5", "0", "12.346", "100000000000000", "0", "0", "0"])
  }

  @Test func textsAreCutAtACharacter() {
    #expect("abcdef".limited(to: 6) == "abcdef")
    #expect("abcdefg".limited(to: 6) == "abc…")
    #expect("ééé".limited(to: 5) == "é…")
    #expect("\n\n".limited(to: 11) == "\n…")
  }
}
