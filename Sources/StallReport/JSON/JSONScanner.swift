import PlatformLibc

/// A reader of JSON (RFC 8259) that goes from token to token over bytes that stay where they are.
///
/// It copies and allocates nothing. The bytes may come from anybody: every load is checked against the end, and nesting is bounded.
/// All JSON that comes from outside is read by it. Each reader knows its own keys; only `stalld status` decodes what was read so with
/// Foundation, because an `AgentStatus` has many members:
///
///     guard try json.beginObject() else { return }
///     repeat {
///       let key = try json.key()
///       if json.is(key, "pid") { pid = try json.skipValue() } else { try json.skipValue() }
///     } while try json.nextMember()
@usableFromInline
package struct JSONScanner {
  /// Why bytes are not JSON, and where, counted in bytes from 0.
  @usableFromInline
  package struct Fault: Error {
    package var reason: String
    package var position: Int

    package init(reason: String, position: Int) {
      self.reason = reason
      self.position = position
    }
  }

  /// A string's bytes between its quotes; of any other value all bytes.
  @usableFromInline
  package struct Text {
    @usableFromInline package var start: Int
    @usableFromInline package var end: Int
    /// Some characters are written as escapes.
    @usableFromInline package var hasEscapes: Bool

    @inlinable @inline(__always) package var count: Int { end - start }
    @inlinable package var range: Range<Int> { start..<end }

    @inlinable package init(start: Int, end: Int, hasEscapes: Bool) {
      self.start = start
      self.end = end
      self.hasEscapes = hasEscapes
    }
  }

  /// How deep values may be nested in the outermost one.
  @inlinable package static var depthLimit: Int { 32 }

  /// The position of the next byte, counted from 0.
  @usableFromInline package var position = 0
  @usableFromInline let base: UnsafePointer<UInt8>
  @usableFromInline package let count: Int
  /// How many objects and arrays are open.
  @usableFromInline var depth = 0
  private let requiresUTF8: Bool

  /// A reader of bytes, which must stay where they are while it is used.
  ///
  /// With `requiresUTF8` a string that is not UTF-8 (RFC 3629) is a fault.
  package init(_ bytes: UnsafeBufferPointer<UInt8>, requiresUTF8: Bool = true) {
    base = bytes.baseAddress ?? UnsafePointer(bitPattern: 1)!
    count = bytes.count
    self.requiresUTF8 = requiresUTF8
  }

  /// The byte at the position; 0 at the end.
  @inlinable package var current: UInt8 { position < count ? base[position] : 0 }

  /// A fault at the position.
  @usableFromInline
  package func fault(_ reason: String) -> Fault { Fault(reason: reason, position: position) }

  // MARK: Values

  /// Goes to the next value; returns where it begins.
  @inlinable @inline(__always)
  package mutating func beginValue() throws(Fault) -> Int {
    guard depth <= Self.depthLimit else { throw fault("nested too deep") }
    skipBlanks()
    return position
  }

  /// Goes past a value of any kind; returns where it is.
  ///
  /// Most of a report is gone past by this: it is one loop, whose position stays in a register.
  @discardableResult @usableFromInline
  package mutating func skipValue() throws(Fault) -> Range<Int> {
    let start = try beginValue()
    var cursor = JSONCursor(base: base, count: count, position: position, requiresUTF8: requiresUTF8)
    let failure = cursor.skipValue(levels: Self.depthLimit - depth)
    position = cursor.position
    if failure != .none { throw fault(failure.words) }
    return start..<position
  }

  /// Skips a value of any kind.
  ///
  /// Of a string, the part between the quotes is known.
  @inlinable @inline(__always)
  package mutating func value() throws(Fault) -> Text {
    let start = try beginValue()
    if current == UInt8(ascii: "\"") { return try text() }
    try skipValue()
    return Text(start: start, end: position, hasEscapes: false)
  }

  /// Goes past a string, a number, `true`, `false` or `null`.
  package mutating func skipScalar() throws(Fault) {
    var cursor = JSONCursor(base: base, count: count, position: position, requiresUTF8: requiresUTF8)
    let failure = cursor.skipScalar()
    position = cursor.position
    if failure != .none { throw fault(failure.words) }
  }

  /// Checks that nothing but blanks follows.
  package mutating func end() throws(Fault) {
    skipBlanks()
    guard position == count else { throw fault("more than one value") }
  }

  // MARK: Objects and arrays

  /// Enters the object at the position; returns whether it has a member, and has left it otherwise.
  @inlinable @inline(__always)
  package mutating func beginObject() throws(Fault) -> Bool { begin(UInt8(ascii: "}")) }

  /// Enters the array at the position; returns whether it has an element, and has left it otherwise.
  @inlinable @inline(__always)
  package mutating func beginArray() throws(Fault) -> Bool { begin(UInt8(ascii: "]")) }

  /// Goes past the next member's key and colon.
  @inlinable @inline(__always)
  package mutating func key() throws(Fault) -> Text {
    guard current == UInt8(ascii: "\"") else { throw fault("a key is missing") }
    let key = try text()
    skipBlanks()
    guard current == UInt8(ascii: ":") else { throw fault("\":\" is missing") }
    position += 1
    return key
  }

  /// Goes from a member to the next one; returns false if there is none, and has left the object then.
  @inlinable @inline(__always)
  package mutating func nextMember() throws(Fault) -> Bool {
    if takeComma() { return true }
    guard current == UInt8(ascii: "}") else { throw fault("\"}\" is missing") }
    leave()
    return false
  }

  /// Goes from an element to the next one; returns false if there is none, and has left the array then.
  @inlinable @inline(__always)
  package mutating func nextElement() throws(Fault) -> Bool {
    if takeComma() { return true }
    guard current == UInt8(ascii: "]") else { throw fault("\"]\" is missing") }
    leave()
    return false
  }

  @inlinable @inline(__always)
  mutating func begin(_ end: UInt8) -> Bool {
    position += 1
    skipBlanks()
    guard current != end else {
      position += 1
      return false
    }
    depth += 1
    return true
  }

  @inlinable @inline(__always)
  mutating func takeComma() -> Bool {
    skipBlanks()
    guard current == UInt8(ascii: ",") else { return false }
    position += 1
    skipBlanks()
    return true
  }

  @inlinable @inline(__always)
  mutating func leave() {
    position += 1
    depth -= 1
  }

  /// Goes past spaces, tabs and line ends.
  @inlinable @inline(__always)
  package mutating func skipBlanks() { Self.skipBlanks(from: &position, in: base, count) }

  /// The same of a position in bytes, of which there are `count`.
  @inlinable @inline(__always)
  static func skipBlanks(from position: inout Int, in base: UnsafePointer<UInt8>, _ count: Int) {
    while position < count {
      let byte = base[position]
      guard byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d else { return }
      position += 1
    }
  }
}

extension JSONScanner {
  // MARK: Strings

  /// Goes past the string at the position.
  @usableFromInline
  package mutating func text() throws(Fault) -> Text {
    let start = position
    var cursor = JSONCursor(base: base, count: count, position: start, requiresUTF8: requiresUTF8)
    var hasEscapes = false
    let failure = cursor.skipText(&hasEscapes)
    position = cursor.position
    if failure != .none { throw fault(failure.words) }
    return Text(start: start + 1, end: position - 1, hasEscapes: hasEscapes)
  }

  // MARK: Comparing

  /// Whether a string is a word; one with escapes is compared as it is written.
  @inlinable @inline(__always)
  package func `is`(_ text: Text, _ word: StaticString) -> Bool {
    text.count == word.utf8CodeUnitCount && memcmp(base + text.start, word.utf8Start, text.count) == 0
  }

  /// Whether two strings are written alike.
  package func areEqual(_ a: Text, _ b: Text) -> Bool {
    a.count == b.count && memcmp(base + a.start, base + b.start, a.count) == 0
  }
}
