import StallReport

/// One pass over a report line: whether it is JSON (RFC 8259), and where the members lie that a summary is made of.
///
/// Nothing is copied.
struct ReportScanner {
  /// A value's bytes: of text, those between its quotes.
  struct Bytes {
    var start: Int32 = -1
    var end: Int32 = -1
    /// It is text, and some of its characters are written as escapes.
    var hasEscapes = false

    init() {}

    init(_ value: JSONScanner.Text) {
      (start, end, hasEscapes) = (
        Int32(truncatingIfNeeded: value.start), Int32(truncatingIfNeeded: value.end), value.hasEscapes
      )
    }

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
  private enum Container: UInt8 { case outermost, event, stall, suppressed, loop, process, service, host, elsewhere }

  private var json: JSONScanner
  private var members = Members()

  /// Scans one line without its newline.
  ///
  /// Throws ``Fault`` where it is not one JSON object.
  static func scan(_ bytes: UnsafeBufferPointer<UInt8>) throws(Fault) -> Members {
    guard bytes.count < Int(Int32.max) else { throw Fault(reason: "not a JSON object") }
    var scanner = ReportScanner(json: JSONScanner(bytes))
    scanner.json.skipBlanks()
    guard scanner.json.current == UInt8(ascii: "{") else { throw Fault(reason: "not a JSON object") }
    do {
      try scanner.object(.outermost)
      try scanner.json.end()
    } catch {
      throw Fault(reason: Self.words(for: error))
    }
    return scanner.members
  }

  private static func words(for fault: JSONScanner.Fault) -> String {
    switch fault.reason {
    case "not UTF-8", "nested too deep": fault.reason
    case "more than one value": "more than one JSON value"
    default: "not JSON: \(fault.reason)"
    }
  }

  // MARK: What is where

  private mutating func object(_ container: Container) throws(JSONScanner.Fault) {
    guard try json.beginObject() else { return }
    repeat {
      let key = try json.key()
      let inner = Self.container(of: key, in: container, json)
      if inner != .elsewhere {
        _ = try json.beginValue()
        if json.current == UInt8(ascii: "{") {
          try object(inner)
          continue
        }
      }
      note(key, Bytes(try json.value()), in: container)
    } while try json.nextMember()
  }

  /// The object that is a member's value.
  ///
  /// Not of an instance, which would be copied for each key.
  @inline(__always)
  private static func container(of key: JSONScanner.Text, in outer: Container, _ json: borrowing JSONScanner)
    -> Container
  {
    if outer == .stall { return json.is(key, "suppressed") ? .suppressed : .elsewhere }
    guard outer == .outermost else { return .elsewhere }
    return switch key.count {
    case 4: json.is(key, "loop") ? .loop : json.is(key, "host") ? .host : .elsewhere
    case 5: json.is(key, "stall") ? .stall : json.is(key, "event") ? .event : .elsewhere
    case 7: json.is(key, "service") ? .service : json.is(key, "process") ? .process : .elsewhere
    default: .elsewhere
    }
  }

  private mutating func note(_ key: JSONScanner.Text, _ value: Bytes, in container: Container) {
    switch container {
    case .outermost:
      if json.is(key, "stack") { members.stack = value }
      if json.is(key, "@timestamp") { members.time = value }
    case .event:
      if json.is(key, "name") { members.event = value }
      if json.is(key, "schema") { members.schema = value }
    case .stall: noteStall(key, value)
    case .suppressed:
      if json.is(key, "count") { members.suppressedCount = value }
      if json.is(key, "total_ms") { members.suppressedTotal = value }
      if json.is(key, "longest_ms") { members.suppressedLongest = value }
      if json.is(key, "window_ms") { members.suppressedWindow = value }
    case .loop:
      if json.is(key, "name") { members.loop = value }
    case .process:
      if json.is(key, "pid") { members.processID = value }
    case .service:
      if json.is(key, "name") { members.service = value }
      if json.is(key, "version") { members.version = value }
    case .host:
      if json.is(key, "name") { members.host = value }
    case .elsewhere: break
    }
  }

  private mutating func noteStall(_ key: JSONScanner.Text, _ value: Bytes) {
    switch key.count {
    case 2: if json.is(key, "id") { members.stallID = value }
    case 5: if json.is(key, "cause") { members.cause = value }
    case 7: if json.is(key, "culprit") { members.culprit = value }
    case 8: if json.is(key, "sequence") { members.sequence = value }
    case 11:
      if json.is(key, "duration_ms") { members.duration = value }
      if json.is(key, "fingerprint") { members.fingerprint = value }
    default: break
    }
  }
}
