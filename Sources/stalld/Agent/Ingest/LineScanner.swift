import StallReport

/// One pass over a line from a process: whether it is JSON (RFC 8259), what it is, and where the parts lie that the agent reads or replaces.
///
/// Nothing is copied. The line is another user's: every load is checked against the end, nesting is bounded, and what could have two
/// meanings is refused (a key of an outer object twice or with an escape, a dotted key), since readers after us would take
/// one of them for what the kernel says.
///
/// A class, as the parts are many: each call of a method would copy them all.
final class LineScanner {
  /// What a line is.
  enum Kind { case report, hello, detail, goodbye }

  /// Parts of a line, as ranges of its bytes.
  struct Parts {
    var kind = Kind.report
    var eventName: Range<Int>?
    var schema: Range<Int>?
    var dropped: Range<Int>?
    var level: Range<Int>?
    var time: Range<Int>?
    var message: Range<Int>?
    var stall: Range<Int>?
    var stallID: Range<Int>?
    var sequence: Range<Int>?
    var duration: Range<Int>?
    var cause: Range<Int>?
    var culprit: Range<Int>?
    var tally: Range<Int>?
    var service: Range<Int>?
    var serviceName: Range<Int>?
    var phase: Range<Int>?
    /// The agent's own, of its own lines.
    var systemd: Range<Int>?
    /// Some frame has a build and no name, or the line has its samples.
    var lacksNames = false
    /// The builds of those frames: equal numbers for equal builds; 0 if there are none or too many, or the line has its samples.
    var unnamedBuilds: UInt64 = 0
    /// The whole member, with its key.
    var process: Range<Int>?
    /// The value of `process.pid`.
    var processID: Range<Int>?
    /// The value of `process.user.id`, of the agent's own lines.
    var userID: Range<Int>?
    /// The value of `process.executable`.
    var executable: Range<Int>?
    /// The value of `hello` or `detail`.
    var payload: Range<Int>?
    /// What the stack, the other threads and all samples take, which may be left out.
    var omittableBytes = 0
    fileprivate var found: Members = []

    /// The first member that a report must have (`Config/schema`) and this has not, or has with a value of another type.
    var missing: String? {
      RequiredMember.all.indices.first { !found.contains(Members(rawValue: 1 << $0)) }.map {
        "\(RequiredMember.all[$0].path)"
      }
    }
  }

  fileprivate struct Members: OptionSet {
    var rawValue: UInt32
  }

  /// Why a line is refused.
  typealias Fault = JSONScanner.Fault

  /// Which object's members are being read.
  fileprivate enum SchemaObject {
    case outermost, event, stall, evidence, pressure, tally, loop, service, host, process, user, executable, tree
    case elsewhere
    /// Arrays of objects, and the objects of one.
    case stack, threads, thread, frame
  }

  /// Members of an object, each of which is compared with those before it; no object of the schema has more than thirty.
  private static let memberLimit = 128
  /// A larger count is implausible.
  static let largestCount = 1_000_000_000_000
  /// A year, in milliseconds.
  private static let longestDuration = 366.0 * 86_400_000

  private let bytes: UnsafeBufferPointer<UInt8>
  private let isStamped: Bool
  // Unchecked: one call of scan() alone has it.
  @exclusivity(unchecked) private var json: JSONScanner
  @exclusivity(unchecked) private var parts = Parts()
  @exclusivity(unchecked) private var frame = FrameScan()
  /// The keys of the objects that have begun, those of the innermost one last.
  @exclusivity(unchecked) private var keys: [JSONScanner.Text] = []

  private init(_ bytes: UnsafeBufferPointer<UInt8>, isStamped: Bool) {
    self.bytes = bytes
    self.isStamped = isStamped
    json = JSONScanner(bytes)
    keys.reserveCapacity(64)
  }

  /// Scans one line without its newline.
  ///
  /// `isStamped` says that it is the agent's own, which has what a process may not say.
  ///
  /// Throws ``Fault`` where it is not one JSON object, or is one that the protocol does not have.
  static func scan(_ bytes: UnsafeBufferPointer<UInt8>, isStamped: Bool = false) throws(Fault) -> Parts {
    let scanner = LineScanner(bytes, isStamped: isStamped)
    scanner.json.skipBlanks()
    guard scanner.json.current == UInt8(ascii: "{") else { throw Fault(reason: "not a JSON object", position: 0) }
    _ = try scanner.value(.outermost)
    try scanner.json.end()
    scanner.frame.finish(&scanner.parts)
    return scanner.parts
  }

  // MARK: Reading

  private func value(_ place: SchemaObject) throws(Fault) -> Range<Int> {
    if place == .elsewhere { return try json.skipValue() }
    let start = try json.beginValue()
    switch json.current {
    case UInt8(ascii: "{"): try place == .frame ? readFrame() : object(place)
    case UInt8(ascii: "["): try array(place)
    default: try json.skipScalar()
    }
    return start..<json.position
  }

  private func object(_ place: SchemaObject) throws(Fault) {
    guard try json.beginObject() else { return }
    let firstKey = keys.count
    repeat {
      let start = json.position
      let key = try json.key()
      guard !key.hasEscapes else { throw Fault(reason: "a key contains an escape", position: start) }
      guard keys.count - firstKey < Self.memberLimit else {
        throw Fault(reason: "an object with more than \(Self.memberLimit) members", position: start)
      }
      for index in firstKey..<keys.count where json.areEqual(keys[index], key) {
        throw Fault(reason: "a key occurs twice", position: start)
      }
      keys.append(key)
      let value = try value(self.place(of: key, in: place))
      try note(key, value, start..<json.position, in: place)
    } while try json.nextMember()
    keys.removeLast(keys.count - firstKey)
  }

  private func readFrame() throws(Fault) {
    guard try json.beginObject() else { return }
    frame.begin()
    defer { frame.end(bytes) }
    repeat {
      let key = try json.key()
      frame.note(json, key, try json.skipValue())
    } while try json.nextMember()
  }

  private func array(_ place: SchemaObject) throws(Fault) {
    let element: SchemaObject = place == .threads ? .thread : place == .stack ? .frame : .elsewhere
    guard try json.beginArray() else { return }
    repeat {
      if element != .elsewhere, json.current != UInt8(ascii: "{") { throw json.fault("not an object") }
      _ = try value(element)
    } while try json.nextElement()
  }

  // MARK: What is where

  private func place(of key: JSONScanner.Text, in place: SchemaObject) -> SchemaObject {
    switch (place, key.count) {
    case (.outermost, 4): json.is(key, "loop") ? .loop : json.is(key, "host") ? .host : .elsewhere
    case (.outermost, 5):
      json.is(key, "stall") ? .stall : json.is(key, "event") ? .event : json.is(key, "stack") ? .stack : .elsewhere
    case (.outermost, 9): json.is(key, "call_tree") ? .tree : .elsewhere
    case (.outermost, 7):
      json.is(key, "process")
        ? .process : json.is(key, "service") ? .service : json.is(key, "threads") ? .threads : .elsewhere
    case (.stall, 8): json.is(key, "evidence") ? .evidence : .elsewhere
    case (.stall, 10): json.is(key, "suppressed") ? .tally : .elsewhere
    case (.evidence, 8): json.is(key, "pressure") ? .pressure : .elsewhere
    case (.process, 4): isStamped && json.is(key, "user") ? .user : .elsewhere
    case (.process, 10): json.is(key, "executable") ? .executable : .elsewhere
    case (.thread, 5): json.is(key, "stack") ? .stack : .elsewhere
    default: .elsewhere
    }
  }

  private func note(
    _ key: JSONScanner.Text, _ value: Range<Int>, _ member: Range<Int>, in place: SchemaObject
  ) throws(Fault) {
    RequiredMember.all.withUnsafeBufferPointer { all in
      for index in all.indices
      where all[index].place == place && json.is(key, all[index].key) && hasForm(all[index].form, value) {
        parts.found.insert(Members(rawValue: 1 << index))
      }
    }
    if !isStamped, place != .thread { try checkNumber(key, value) }
    switch place {
    case .outermost: try noteOutermost(key, value, member)
    case .event:
      if json.is(key, "name") { parts.eventName = value }
      if json.is(key, "schema") { parts.schema = value }
      if json.is(key, "dropped") { parts.dropped = value }
    case .stall:
      if json.is(key, "id") { parts.stallID = value }
      if json.is(key, "sequence") { parts.sequence = value }
      if json.is(key, "duration_ms") { parts.duration = value }
      if json.is(key, "cause") { parts.cause = value }
      if json.is(key, "culprit") { parts.culprit = value }
      if json.is(key, "suppressed") { parts.tally = value }
    case .service:
      if json.is(key, "name") { parts.serviceName = value }
    case .process:
      if json.is(key, "executable") { parts.executable = value }
      if json.is(key, "pid") { parts.processID = value }
    case .user:
      if json.is(key, "id") { parts.userID = value }
    case .thread:
      if json.is(key, "stack"), !hasForm(.array, value) {
        throw Fault(reason: "a stack is not an array", position: value.lowerBound)
      }
    case .loop:
      if json.is(key, "phase") { parts.phase = value }
    case .evidence, .pressure, .tally, .host, .executable, .tree, .stack, .threads, .frame, .elsewhere: break
    }
  }

  /// Refuses a number that cannot be: less than nothing, a time of more than a year, too large a count.
  private func checkNumber(_ key: JSONScanner.Text, _ value: Range<Int>) throws(Fault) {
    let first = bytes[value.lowerBound]
    guard first == UInt8(ascii: "-") || first &- 0x30 <= 9 else { return }
    // Nine digits, and no exponent behind them, are never too much.
    if first != UInt8(ascii: "-"), isSmall(value) { return }
    let isDuration = key.count > 3 && bytes[key.range].suffix(3).elementsEqual("_ms".utf8)
    guard isDuration || Self.counts.contains(where: { json.is(key, $0) }) else { return }
    func fault(_ reason: String) -> Fault {
      Fault(reason: "\(String(decoding: bytes[key.range], as: UTF8.self).forLog) \(reason)", position: value.lowerBound)
    }
    guard first != UInt8(ascii: "-") else { throw fault("is negative") }
    let number = Double(String(decoding: bytes[value], as: UTF8.self)) ?? .infinity
    if isDuration, number > Self.longestDuration { throw fault("is longer than a year") }
    if !isDuration, number > Double(Self.largestCount) { throw fault("is too large") }
  }

  /// Whether a number has at most nine digits before its point, and no exponent.
  private func isSmall(_ value: Range<Int>) -> Bool {
    var whole = 0
    var isFraction = false
    for byte in bytes[value] {
      if byte == UInt8(ascii: ".") {
        isFraction = true
      } else if byte &- 0x30 > 9 {
        return false
      } else if !isFraction {
        whole += 1
      }
    }
    return whole <= 9
  }

  /// Members that are numbers of things; `ReportContractTests` compares them with the schema.
  static let counts: [StaticString] = [
    "dropped", "count", "samples", "callouts", "frames_omitted", "threads_omitted", "major_faults", "minor_faults",
  ]

  private func hasForm(_ form: RequiredMember.Form, _ value: Range<Int>) -> Bool {
    switch form {
    case .text: bytes[value.lowerBound] == UInt8(ascii: "\"") && value.count > 2
    case .number: bytes[value.lowerBound] &- 0x30 <= 9
    case .object: bytes[value.lowerBound] == UInt8(ascii: "{")
    case .array: bytes[value.lowerBound] == UInt8(ascii: "[")
    }
  }

  private func noteOutermost(
    _ key: JSONScanner.Text, _ value: Range<Int>, _ member: Range<Int>
  ) throws(Fault) {
    switch key.count {
    case 5:
      if json.is(key, "stall") { parts.stall = value }
      if json.is(key, "stack") { parts.omittableBytes += value.count - 2 }
      if json.is(key, "hello") { (parts.kind, parts.payload) = (.hello, value) }
    case 6:
      if json.is(key, "detail") { (parts.kind, parts.payload) = (.detail, value) }
    case 7:
      if json.is(key, "process") { parts.process = member }
      if json.is(key, "service") { parts.service = value }
      if json.is(key, "message") { parts.message = value }
      if json.is(key, "goodbye") { parts.kind = .goodbye }
      if json.is(key, "threads") {
        guard hasForm(.array, value) else {
          throw Fault(reason: "threads is not an array", position: value.lowerBound)
        }
        parts.omittableBytes += value.count - 2
      }
      if json.is(key, "systemd") {
        guard isStamped else { throw Fault(reason: "a key that only the agent may set", position: member.lowerBound) }
        parts.systemd = value
      }
    case 9:
      if json.is(key, "log.level") {
        parts.level = value
        return
      }
      if json.is(key, "call_tree") {
        parts.omittableBytes += value.count
        frame.hasTree = true
      }
    case 10:
      if json.is(key, "@timestamp") { parts.time = value }
    default: break
    }
    // Some databases take "process.pid" for the member pid of process.
    if bytes[key.range].contains(UInt8(ascii: ".")) {
      throw Fault(reason: "a key other than log.level contains a dot", position: member.lowerBound)
    }
  }
}

/// A member that every report has, and what its value begins with.
private struct RequiredMember {
  enum Form { case text, number, object, array }

  var place: LineScanner.SchemaObject
  var key: StaticString
  var form: Form
  // No String, which would be counted at each look.
  var path: StaticString

  init(_ place: LineScanner.SchemaObject, _ key: StaticString, _ form: Form, _ path: StaticString) {
    (self.place, self.key, self.form, self.path) = (place, key, form, path)
  }

  static let all = [
    RequiredMember(.outermost, "@timestamp", .text, "@timestamp"),
    RequiredMember(.outermost, "log.level", .text, "log.level"),
    RequiredMember(.outermost, "message", .text, "message"),
    RequiredMember(.event, "name", .text, "event.name"),
    RequiredMember(.event, "schema", .text, "event.schema"),
    RequiredMember(.stall, "id", .text, "stall.id"),
    RequiredMember(.stall, "sequence", .number, "stall.sequence"),
    RequiredMember(.stall, "threshold_ms", .number, "stall.threshold_ms"),
    RequiredMember(.stall, "duration_ms", .number, "stall.duration_ms"),
    RequiredMember(.stall, "cause", .text, "stall.cause"),
    RequiredMember(.stall, "evidence", .object, "stall.evidence"),
    RequiredMember(.stall, "samples", .number, "stall.samples"),
    RequiredMember(.loop, "name", .text, "loop.name"),
    RequiredMember(.loop, "kind", .text, "loop.kind"),
    RequiredMember(.loop, "phase", .text, "loop.phase"),
    RequiredMember(.executable, "path", .text, "process.executable.path"),
    RequiredMember(.service, "name", .text, "service.name"),
    RequiredMember(.host, "name", .text, "host.name"),
    RequiredMember(.outermost, "stack", .array, "stack"),
  ]
}
