import Glibc

/// One pass over a report line: whether it is JSON (RFC 8259), and where the members lie that a summary is made of.
///
/// Nothing is copied, and only a few bytes a clock cycle are looked at: text is passed over in words of eight. Every load is checked
/// against the end, and nesting is bounded.
struct ReportScanner {
  /// A value's bytes: of text, those between its quotes.
  struct Bytes {
    var start: Int32 = -1
    var end: Int32 = -1
    /// It is text, and some of its characters are written as escapes.
    var hasEscapes = false

    var isPresent: Bool { start >= 0 }
    var range: Range<Int> { Int(start)..<Int(end) }
  }

  /// The members of a report that are read.
  struct Members {
    var time = Bytes()
    var event = Bytes()
    var schema = Bytes()
    var stallID = Bytes()
    var sequence = Bytes()
    var duration = Bytes()
    var cause = Bytes()
    var culprit = Bytes()
    var fingerprint = Bytes()
    var suppressedCount = Bytes()
    var suppressedTotal = Bytes()
    var suppressedLongest = Bytes()
    var suppressedWindow = Bytes()
    var loop = Bytes()
    var processID = Bytes()
    var service = Bytes()
    var version = Bytes()
    var host = Bytes()
    /// With its brackets.
    var stack = Bytes()
  }

  /// Why a line is not read.
  struct Fault: Error {
    var reason: String
  }

  /// Which object's members are being read.
  private enum Place: UInt8 { case outermost, event, stall, suppressed, loop, process, service, host, elsewhere }

  private static let depthLimit = 32

  private let base: UnsafePointer<UInt8>
  private let count: Int
  private var position = 0
  private var textHasEscapes = false
  private var members = Members()

  private init(_ base: UnsafePointer<UInt8>, _ count: Int) { (self.base, self.count) = (base, count) }

  /// Scans one line without its newline.
  ///
  /// Throws ``Fault`` where it is not one JSON object.
  static func scan(_ bytes: UnsafeBufferPointer<UInt8>) throws(Fault) -> Members {
    guard let base = bytes.baseAddress, bytes.count < Int(Int32.max) else { throw Fault(reason: "not a JSON object") }
    var scanner = ReportScanner(base, bytes.count)
    scanner.skipBlanks()
    guard scanner.current == UInt8(ascii: "{") else { throw Fault(reason: "not a JSON object") }
    try scanner.object(.outermost, depth: 0)
    scanner.skipBlanks()
    guard scanner.position == bytes.count else { throw Fault(reason: "more than one JSON value") }
    return scanner.members
  }

  // MARK: Reading

  @inline(__always)
  private var current: UInt8 { position < count ? base[position] : 0 }

  @inline(__always)
  private mutating func skipBlanks() {
    while position < count {
      let byte = base[position]
      guard byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d else { return }
      position += 1
    }
  }

  private mutating func value(_ place: Place, depth: Int) throws(Fault) -> Bytes {
    guard depth <= Self.depthLimit else { throw Fault(reason: "nested too deep") }
    skipBlanks()
    let start = position
    switch current {
    case UInt8(ascii: "\""):
      try text()
      return Bytes(start: Int32(start + 1), end: Int32(position - 1), hasEscapes: textHasEscapes)
    case UInt8(ascii: "{"): try object(place, depth: depth)
    case UInt8(ascii: "["): try array(depth: depth)
    default: try literal()
    }
    return Bytes(start: Int32(start), end: Int32(position))
  }

  private mutating func object(_ place: Place, depth: Int) throws(Fault) {
    position += 1
    skipBlanks()
    if current == UInt8(ascii: "}") {
      position += 1
      return
    }
    while true {
      skipBlanks()
      let start = position + 1
      guard current == UInt8(ascii: "\"") else { throw Fault(reason: "not JSON: a key is missing") }
      try text()
      let length = position - 1 - start
      skipBlanks()
      guard current == UInt8(ascii: ":") else { throw Fault(reason: "not JSON: \":\" is missing") }
      position += 1
      if place == .elsewhere {
        _ = try value(.elsewhere, depth: depth + 1)
      } else {
        let inner = self.place(ofKey: start, length, in: place)
        let value = try value(inner, depth: depth + 1)
        note(start, length, value, in: place)
      }
      skipBlanks()
      guard current == UInt8(ascii: ",") else { break }
      position += 1
    }
    guard current == UInt8(ascii: "}") else { throw Fault(reason: "not JSON: \"}\" is missing") }
    position += 1
  }

  private mutating func array(depth: Int) throws(Fault) {
    position += 1
    skipBlanks()
    if current == UInt8(ascii: "]") {
      position += 1
      return
    }
    while true {
      _ = try value(.elsewhere, depth: depth + 1)
      skipBlanks()
      guard current == UInt8(ascii: ",") else { break }
      position += 1
    }
    guard current == UInt8(ascii: "]") else { throw Fault(reason: "not JSON: \"]\" is missing") }
    position += 1
  }

  private mutating func text() throws(Fault) {
    position += 1
    textHasEscapes = false
    while true {
      skipPlainText()
      guard position < count else { throw Fault(reason: "not JSON: a string without an end") }
      let byte = base[position]
      if byte == UInt8(ascii: "\"") {
        position += 1
        return
      }
      if byte == UInt8(ascii: "\\") {
        textHasEscapes = true
        if let reason = JSONTokens.escape(bytes, &position) { throw Fault(reason: "not JSON: \(reason)") }
      } else if byte >= 0x80 {
        guard JSONTokens.character(bytes, &position) else { throw Fault(reason: "not UTF-8") }
      } else {
        throw Fault(reason: "not JSON: a control character in a string")
      }
    }
  }

  /// Goes to the next quote, backslash, control character or byte that is not ASCII, or to the end.
  @inline(__always)
  private mutating func skipPlainText() {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let tops: UInt64 = 0x8080_8080_8080_8080
    while position + 8 <= count {
      let word = UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self)
      let quote = word ^ (ones &* 0x22)
      let backslash = word ^ (ones &* 0x5c)
      // A top bit is set in the first byte that is zero, or below 0x20; those above it do not count.
      let found =
        ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | ((word &- ones &* 0x20) & ~word) | word
      let marks = found & tops
      if marks != 0 {
        position += UInt64(littleEndian: marks).trailingZeroBitCount >> 3
        return
      }
      position += 8
    }
    while position < count {
      let byte = base[position]
      if byte == 0x22 || byte == 0x5c || byte < 0x20 || byte >= 0x80 { return }
      position += 1
    }
  }

  private mutating func literal() throws(Fault) {
    if let reason = JSONTokens.literal(bytes, &position) { throw Fault(reason: "not JSON: \(reason)") }
  }

  @inline(__always)
  private var bytes: JSONTokens.Bytes { JSONTokens.Bytes(start: base, count: count) }

  // MARK: What is where

  @inline(__always)
  private func `is`(_ start: Int, _ length: Int, _ word: StaticString) -> Bool {
    length == word.utf8CodeUnitCount && memcmp(base + start, word.utf8Start, length) == 0
  }

  private func place(ofKey start: Int, _ length: Int, in outer: Place) -> Place {
    if outer == .stall { return self.is(start, length, "suppressed") ? .suppressed : .elsewhere }
    guard outer == .outermost else { return .elsewhere }
    return switch length {
    case 4: self.is(start, length, "loop") ? .loop : self.is(start, length, "host") ? .host : .elsewhere
    case 5: self.is(start, length, "stall") ? .stall : self.is(start, length, "event") ? .event : .elsewhere
    case 7: self.is(start, length, "service") ? .service : self.is(start, length, "process") ? .process : .elsewhere
    default: .elsewhere
    }
  }

  private mutating func note(_ start: Int, _ length: Int, _ value: Bytes, in place: Place) {
    switch place {
    case .outermost:
      if self.is(start, length, "stack") { members.stack = value }
      if self.is(start, length, "@timestamp") { members.time = value }
    case .event:
      if self.is(start, length, "name") { members.event = value }
      if self.is(start, length, "schema") { members.schema = value }
    case .stall: noteStall(start, length, value)
    case .suppressed:
      if self.is(start, length, "count") { members.suppressedCount = value }
      if self.is(start, length, "total_ms") { members.suppressedTotal = value }
      if self.is(start, length, "longest_ms") { members.suppressedLongest = value }
      if self.is(start, length, "window_ms") { members.suppressedWindow = value }
    case .loop:
      if self.is(start, length, "name") { members.loop = value }
    case .process:
      if self.is(start, length, "pid") { members.processID = value }
    case .service:
      if self.is(start, length, "name") { members.service = value }
      if self.is(start, length, "version") { members.version = value }
    case .host:
      if self.is(start, length, "name") { members.host = value }
    case .elsewhere: break
    }
  }

  private mutating func noteStall(_ start: Int, _ length: Int, _ value: Bytes) {
    switch length {
    case 2: if self.is(start, length, "id") { members.stallID = value }
    case 5: if self.is(start, length, "cause") { members.cause = value }
    case 7: if self.is(start, length, "culprit") { members.culprit = value }
    case 8: if self.is(start, length, "sequence") { members.sequence = value }
    case 11:
      if self.is(start, length, "duration_ms") { members.duration = value }
      if self.is(start, length, "fingerprint") { members.fingerprint = value }
    default: break
    }
  }
}
