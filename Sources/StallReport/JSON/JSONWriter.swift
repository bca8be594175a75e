/// Writes JSON (RFC 8259) piece by piece, in the order in which the pieces are given.
///
/// A writer has the members of one object, without its braces, or the pieces of one value:
///
///     var line = JSONWriter()
///     line.member("name", "web")                     // "name":"web"
///     line.object("event") { $0.member("count", 3) } // ,"event":{"count":3}
///     line.key("causes")
///     line.array(["lock", "io"]) { $0.value($1) }    // ,"causes":["lock","io"]
///     line.terminated()                              // {…} and a newline
@usableFromInline
package struct JSONWriter {
  /// Which characters of a string are written as escapes, beside those that have to be.
  package enum Escaping {
    /// U+007F, which a terminal acts on.
    case line
    /// What could end a script of a page or a line, too: `<`, `>`, `&`, U+2028 and U+2029.
    case page
  }

  package private(set) var bytes: [UInt8] = []
  @usableFromInline var needsComma = false
  private let escaping: Escaping

  package init(escaping: Escaping = .line) { self.escaping = escaping }

  /// The members as an object, with a newline.
  package func terminated() -> [UInt8] {
    [UInt8(ascii: "{")] + bytes + [UInt8(ascii: "}"), UInt8(ascii: "\n")]
  }

  /// A text as a JSON string.
  package static func quoted(_ text: String) -> [UInt8] {
    var writer = JSONWriter()
    writer.value(text)
    return writer.bytes
  }

  // MARK: Values

  package mutating func value(_ text: String) {
    separate()
    string(text)
  }

  @inlinable
  package mutating func value(_ number: some BinaryInteger) { piece(String(number)) }

  package mutating func value(_ flag: Bool) { piece(flag ? "true" : "false") }

  package mutating func null() { piece("null") }

  /// A number with three decimals at most; 0 if it is not finite or too large.
  package mutating func value(_ number: Double) {
    guard number.isFinite, abs(number) < 1e15 else { return piece("0") }
    let thousandths = Int64((number * 1000).rounded())
    let (whole, rest) = (thousandths.magnitude / 1000, thousandths.magnitude % 1000)
    var text = (thousandths < 0 ? "-" : "") + String(whole)
    if rest != 0 {
      text += "." + String(repeating: "0", count: rest < 10 ? 2 : rest < 100 ? 1 : 0) + String(rest)
      while text.utf8.last == UInt8(ascii: "0") { text.removeLast() }
    }
    piece(text)
  }

  /// A number, or null.
  package mutating func value(_ number: Double?) { if let number { value(number) } else { null() } }

  /// A duration in milliseconds with three decimals.
  package mutating func value(milliseconds nanoseconds: UInt64) {
    let microseconds = (nanoseconds &+ 500) / 1000
    let fraction = String(microseconds % 1000)
    let zeros = String(repeating: "0", count: 3 - fraction.utf8.count)
    piece("\(microseconds / 1000).\(zeros)\(fraction)")
  }

  /// A value that is written already.
  package mutating func written(_ value: some Sequence<UInt8>) {
    separate()
    bytes += value
  }

  /// A value that another writer has written.
  package mutating func written(_ other: JSONWriter) { written(other.bytes) }

  /// An object of the members that `body` writes.
  package mutating func object(_ body: (inout JSONWriter) -> Void) { nest("{", "}", body) }

  /// An array of the values that `body` writes.
  @usableFromInline
  package mutating func array(_ body: (inout JSONWriter) -> Void) { nest("[", "]", body) }

  /// An array of a value for each element.
  @inlinable
  package mutating func array<S: Sequence>(_ elements: S, _ body: (inout JSONWriter, S.Element) -> Void) {
    array { for element in elements { body(&$0, element) } }
  }

  /// An array of numbers.
  @inlinable
  package mutating func array(_ numbers: some Sequence<some BinaryInteger>) { array(numbers) { $0.value($1) } }

  // MARK: Members

  /// The name of the next value.
  package mutating func key(_ name: String) {
    value(name)
    endKey()
  }

  /// The name of the next value, which needs no escape.
  @usableFromInline
  package mutating func key(_ name: StaticString) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    name.withUTF8Buffer { bytes.append(contentsOf: $0) }
    bytes.append(UInt8(ascii: "\""))
    endKey()
  }

  private mutating func endKey() {
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  /// Adds `"key":value`; nothing if the value is nil.
  package mutating func member(_ key: StaticString, _ value: String?) {
    guard let value else { return }
    self.key(key)
    self.value(value)
  }

  /// Adds `"key":value`; nothing if the value is nil.
  @inlinable
  package mutating func member(_ key: StaticString, _ value: (some BinaryInteger)?) {
    guard let value else { return }
    self.key(key)
    self.value(value)
  }

  /// Adds `"key":true` or `"key":false`; nothing if the value is nil.
  package mutating func member(_ key: StaticString, bool value: Bool?) {
    guard let value else { return }
    self.key(key)
    self.value(value)
  }

  /// Adds `"key":true`; nothing if the value is false.
  package mutating func member(_ key: StaticString, ifTrue value: Bool) {
    guard value else { return }
    self.key(key)
    self.value(true)
  }

  /// Adds a duration in milliseconds with three decimals; nothing if the value is nil.
  package mutating func member(_ key: StaticString, milliseconds nanoseconds: UInt64?) {
    guard let nanoseconds else { return }
    self.key(key)
    value(milliseconds: nanoseconds)
  }

  /// Adds `"key":0.93`: a number from 0 to 1 with two decimals.
  package mutating func member(_ key: StaticString, share: Double) {
    self.key(key)
    let hundredths = Int((share * 100).rounded())
    piece("\(hundredths / 100).\(hundredths / 10 % 10)\(hundredths % 10)")
  }

  /// Adds a nested object; nothing at all if `body` adds no member, unless it is `required`.
  package mutating func object(_ key: StaticString, required: Bool = false, _ body: (inout JSONWriter) -> Void) {
    let (count, neededComma) = (bytes.count, needsComma)
    self.key(key)
    let begin = bytes.count
    object(body)
    guard !required, bytes.count == begin + 2 else { return }
    bytes.removeSubrange(count...)
    needsComma = neededComma
  }

  /// Adds an array of objects that were written before.
  package mutating func array(_ key: StaticString, _ objects: [JSONWriter]) {
    self.key(key)
    array(objects) { array, members in array.object { $0.append(members: members) } }
  }

  /// Adds an array of the values that another writer has.
  package mutating func member(_ key: StaticString, array values: JSONWriter) {
    self.key(key)
    array { if !values.bytes.isEmpty { $0.written(values) } }
  }

  /// Adds an array of strings.
  package mutating func array(_ key: StaticString, _ strings: [String]) {
    self.key(key)
    array(strings) { $0.value($1) }
  }

  /// Adds an array of numbers.
  @inlinable
  package mutating func array(_ key: StaticString, _ numbers: [some BinaryInteger]) {
    self.key(key)
    array(numbers)
  }

  /// Adds an array of durations in milliseconds with three decimals.
  package mutating func array(_ key: StaticString, milliseconds nanoseconds: [UInt64]) {
    self.key(key)
    array(nanoseconds) { $0.value(milliseconds: $1) }
  }

  /// Adds all members of another object.
  package mutating func append(members other: JSONWriter) {
    guard !other.bytes.isEmpty else { return }
    written(other)
  }

  // MARK: Pieces

  private mutating func nest(_ open: Unicode.Scalar, _ close: Unicode.Scalar, _ body: (inout JSONWriter) -> Void) {
    separate()
    bytes.append(UInt8(ascii: open))
    needsComma = false
    body(&self)
    bytes.append(UInt8(ascii: close))
    needsComma = true
  }

  @usableFromInline
  mutating func piece(_ text: String) {
    separate()
    bytes += text.utf8
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func string(_ value: String) {
    bytes.append(UInt8(ascii: "\""))
    var value = value
    value.withUTF8 { text in
      // Text is copied in runs between what has to be escaped.
      var run = 0
      for (index, byte) in text.enumerated() {
        let length = escapedSequence(at: index, byte, text)
        guard length > 0 else { continue }
        bytes += UnsafeBufferPointer(rebasing: text[run..<index])
        run = index + length
        escape(text[index..<run])
      }
      bytes += UnsafeBufferPointer(rebasing: text[run...])
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// How many bytes from this one on are to be written as an escape; 0 for none.
  @inline(__always)
  private func escapedSequence(at index: Int, _ byte: UInt8, _ text: UnsafeBufferPointer<UInt8>) -> Int {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0..<0x20, 0x7f: return 1
    case UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"): return escaping == .page ? 1 : 0
    // U+2028 and U+2029; what a String has is UTF-8.
    case 0xe2 where escaping == .page && text[index + 1] == 0x80 && text[index + 2] & 0xfe == 0xa8: return 3
    default: return 0
    }
  }

  private mutating func escape(_ character: Slice<UnsafeBufferPointer<UInt8>>) {
    let byte = character[character.startIndex]
    bytes.append(UInt8(ascii: "\\"))
    if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
      bytes.append(byte)
    } else if character.count == 1 {
      bytes += "u00".utf8
      bytes += hexadecimal(CollectionOfOne(byte)).utf8
    } else {
      bytes += character.last == 0xa8 ? "u2028".utf8 : "u2029".utf8
    }
  }

  /// How many bytes one becomes in a string.
  static func escapedLength(_ byte: UInt8) -> Int {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"): 2
    case 0..<0x20, 0x7f: 6
    default: 1
    }
  }
}

extension String {
  /// At most `limit` bytes as JSON text, cut at a character and marked with an ellipsis.
  ///
  /// Escaped bytes count as what they become: no text of a service makes a line longer than allowed.
  package func limited(to limit: Int) -> String {
    guard utf8.count > limit || utf8.reduce(0, { $0 + JSONWriter.escapedLength($1) }) > limit else { return self }
    var length = 3
    var end = utf8.startIndex
    while end < utf8.endIndex, length + JSONWriter.escapedLength(utf8[end]) <= limit {
      length += JSONWriter.escapedLength(utf8[end])
      end = utf8.index(after: end)
    }
    while end > startIndex, String.Index(end, within: self) == nil { end = utf8.index(before: end) }
    return String(self[..<end]) + "…"
  }
}
