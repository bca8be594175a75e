import Glibc

/// One pass over a line from a host: whether it is JSON (RFC 8259), what it is, and where the parts lie that the agent reads or replaces.
///
/// Nothing is copied. The line is a stranger's: every load is checked against the end, nesting is bounded, and what could have two
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
    /// Which builds those frames are of: the same number for the same ones, 0 if it is not told.
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
  struct Fault: Error {
    var reason: String
    /// Counted in bytes from 0.
    var position: Int
  }

  /// Which object's members are being read.
  fileprivate enum Place {
    case outermost, event, stall, evidence, tally, loop, service, host, process, user, executable, elsewhere
    /// Arrays of objects, and the objects of one.
    case stack, threads, thread, frame
  }

  private static let depthLimit = 32
  /// Members of an object of the schema's, which has less than twenty: each is compared with those before it.
  private static let memberLimit = 128
  /// What is said to have happened so often cannot be.
  static let largestCount = 1_000_000_000_000
  /// A year, in milliseconds.
  private static let longestDuration = 366.0 * 86_400_000

  private let bytes: UnsafeBufferPointer<UInt8>
  private let isStamped: Bool
  // Unchecked: one call of scan() alone has it.
  @exclusivity(unchecked) private var position = 0
  @exclusivity(unchecked) private var parts = Parts()
  @exclusivity(unchecked) private var frame = FrameScan()
  /// The keys of the objects that have begun, those of the innermost one last.
  @exclusivity(unchecked) private var keys: [Range<Int>] = []

  private init(_ bytes: UnsafeBufferPointer<UInt8>, isStamped: Bool) {
    self.bytes = bytes
    self.isStamped = isStamped
    keys.reserveCapacity(64)
  }

  /// Scans one line without its newline.
  ///
  /// `isStamped` says that it is the agent's own, which has what a host may not say.
  ///
  /// Throws ``Fault`` where it is not one JSON object, or is one that the protocol does not have.
  static func scan(_ bytes: UnsafeBufferPointer<UInt8>, isStamped: Bool = false) throws(Fault) -> Parts {
    let scanner = LineScanner(bytes, isStamped: isStamped)
    scanner.skipBlanks()
    guard scanner.current == UInt8(ascii: "{") else { throw Fault(reason: "not a JSON object", position: 0) }
    try scanner.object(.outermost, depth: 0)
    scanner.skipBlanks()
    guard scanner.position == bytes.count else { throw scanner.fault("more than one value") }
    scanner.frame.finish(&scanner.parts)
    return scanner.parts
  }

  // MARK: Reading

  @inline(__always)
  private var current: UInt8 { position < bytes.count ? bytes[position] : 0 }

  private func fault(_ reason: String) -> Fault { Fault(reason: reason, position: position) }

  @inline(__always)
  private func skipBlanks() {
    while position < bytes.count {
      let byte = bytes[position]
      guard byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d else { return }
      position += 1
    }
  }

  private func value(_ place: Place, depth: Int) throws(Fault) -> Range<Int> {
    guard depth <= Self.depthLimit else { throw fault("nested too deep") }
    skipBlanks()
    let start = position
    switch current {
    case UInt8(ascii: "{"): try object(place, depth: depth)
    case UInt8(ascii: "["): try array(place, depth: depth)
    case UInt8(ascii: "\""): _ = try string()
    default: try literal()
    }
    return start..<position
  }

  private func object(_ place: Place, depth: Int) throws(Fault) {
    position += 1
    skipBlanks()
    if current == UInt8(ascii: "}") {
      position += 1
      return
    }
    if place == .frame { frame.begin() }
    defer { if place == .frame { frame.end(bytes) } }
    let firstKey = keys.count
    while true {
      skipBlanks()
      let start = position
      guard current == UInt8(ascii: "\"") else { throw fault("a key is missing") }
      let isPlain = try string()
      let key = (start + 1)..<(position - 1)
      if place != .elsewhere, place != .frame {
        guard isPlain else { throw Fault(reason: "an escape in a key", position: start) }
        guard keys.count - firstKey < Self.memberLimit else {
          throw Fault(reason: "an object with more than \(Self.memberLimit) members", position: start)
        }
        for index in firstKey..<keys.count where JSONTokens.equal(bytes, keys[index], key) {
          throw Fault(reason: "a key twice", position: start)
        }
        keys.append(key)
      }
      skipBlanks()
      guard current == UInt8(ascii: ":") else { throw fault("\":\" is missing") }
      position += 1
      let inner = self.place(of: key, in: place)
      let value = try value(inner, depth: depth + 1)
      if place == .frame {
        frame.note(bytes, key, value)
      } else if place != .elsewhere {
        try note(key, value, start..<position, in: place)
      }
      skipBlanks()
      guard current == UInt8(ascii: ",") else { break }
      position += 1
    }
    guard current == UInt8(ascii: "}") else { throw fault("\"}\" is missing") }
    position += 1
    keys.removeLast(keys.count - firstKey)
  }

  private func array(_ place: Place, depth: Int) throws(Fault) {
    let element: Place = place == .threads ? .thread : place == .stack ? .frame : .elsewhere
    position += 1
    skipBlanks()
    if current == UInt8(ascii: "]") {
      position += 1
      return
    }
    while true {
      skipBlanks()
      if place == .stack || place == .threads, current != UInt8(ascii: "{") { throw fault("not an object") }
      _ = try value(element, depth: depth + 1)
      skipBlanks()
      guard current == UInt8(ascii: ",") else { break }
      position += 1
    }
    guard current == UInt8(ascii: "]") else { throw fault("\"]\" is missing") }
    position += 1
  }

  /// Returns whether it has no escape.
  private func string() throws(Fault) -> Bool {
    let start = position
    var isPlain = true
    var place = position + 1
    while place < bytes.count {
      JSONTokens.skipPlain(bytes, &place)
      guard place < bytes.count else { break }
      let byte = bytes[place]
      if byte == UInt8(ascii: "\"") {
        position = place + 1
        return isPlain
      }
      if byte == UInt8(ascii: "\\") {
        isPlain = false
        let reason = JSONTokens.escape(bytes, &place)
        if let reason { throw Fault(reason: "\(reason)", position: place) }
      } else if byte >= 0x80 {
        guard JSONTokens.character(bytes, &place) else { throw Fault(reason: "not UTF-8", position: place) }
      } else if byte < 0x20 {
        throw Fault(reason: "a control character in a string", position: place)
      } else {
        place += 1
      }
    }
    throw Fault(reason: "a string without an end", position: start)
  }

  private func literal() throws(Fault) {
    if let reason = JSONTokens.literal(bytes, &position) { throw fault("\(reason)") }
  }

  // MARK: What is where

  private func `is`(_ key: Range<Int>, _ word: StaticString) -> Bool {
    key.count == word.utf8CodeUnitCount && JSONTokens.matches(word, bytes, at: key.lowerBound)
  }

  private func place(of key: Range<Int>, in place: Place) -> Place {
    switch (place, key.count) {
    case (.outermost, 4): self.is(key, "loop") ? .loop : self.is(key, "host") ? .host : .elsewhere
    case (.outermost, 5):
      self.is(key, "stall") ? .stall : self.is(key, "event") ? .event : self.is(key, "stack") ? .stack : .elsewhere
    case (.outermost, 7):
      self.is(key, "process")
        ? .process : self.is(key, "service") ? .service : self.is(key, "threads") ? .threads : .elsewhere
    case (.stall, 8): self.is(key, "evidence") ? .evidence : .elsewhere
    case (.stall, 10): self.is(key, "suppressed") ? .tally : .elsewhere
    case (.process, 4): isStamped && self.is(key, "user") ? .user : .elsewhere
    case (.process, 10): self.is(key, "executable") ? .executable : .elsewhere
    case (.thread, 5): self.is(key, "stack") ? .stack : .elsewhere
    default: .elsewhere
    }
  }

  private func note(
    _ key: Range<Int>, _ value: Range<Int>, _ member: Range<Int>, in place: Place
  ) throws(Fault) {
    RequiredMember.all.withUnsafeBufferPointer { all in
      for index in all.indices
      where all[index].place == place && self.is(key, all[index].key) && hasForm(all[index].form, value) {
        parts.found.insert(Members(rawValue: 1 << index))
      }
    }
    if !isStamped, place != .thread { try checkNumber(key, value) }
    switch place {
    case .outermost: try noteOutermost(key, value, member)
    case .event:
      if self.is(key, "name") { parts.eventName = value }
      if self.is(key, "schema") { parts.schema = value }
      if self.is(key, "dropped") { parts.dropped = value }
    case .stall:
      if self.is(key, "id") { parts.stallID = value }
      if self.is(key, "sequence") { parts.sequence = value }
      if self.is(key, "duration_ms") { parts.duration = value }
      if self.is(key, "cause") { parts.cause = value }
      if self.is(key, "culprit") { parts.culprit = value }
      if self.is(key, "suppressed") { parts.tally = value }
    case .service:
      if self.is(key, "name") { parts.serviceName = value }
    case .process:
      if self.is(key, "executable") { parts.executable = value }
      if self.is(key, "pid") { parts.processID = value }
    case .user:
      if self.is(key, "id") { parts.userID = value }
    case .thread:
      if self.is(key, "stack"), !hasForm(.array, value) {
        throw Fault(reason: "a stack that is no array", position: value.lowerBound)
      }
    case .loop:
      if self.is(key, "phase") { parts.phase = value }
    case .evidence, .tally, .host, .executable, .stack, .threads, .frame, .elsewhere: break
    }
  }

  /// Refuses a number that cannot be: less than nothing, a time of more than a year, too large a count.
  private func checkNumber(_ key: Range<Int>, _ value: Range<Int>) throws(Fault) {
    let first = bytes[value.lowerBound]
    guard first == UInt8(ascii: "-") || first &- 0x30 <= 9 else { return }
    let isDuration = key.count > 3 && JSONTokens.matches("_ms", bytes, at: key.upperBound - 3)
    // Nine digits, and no exponent behind them, are never too much.
    if first != UInt8(ascii: "-"), isSmall(value) { return }
    guard isDuration || isCount(key) else { return }
    func fault(_ reason: String) -> Fault {
      Fault(reason: "\(String(decoding: bytes[key], as: UTF8.self).forLog) \(reason)", position: value.lowerBound)
    }
    guard first != UInt8(ascii: "-") else { throw fault("is negative") }
    let number = Double(String(decoding: bytes[value], as: UTF8.self)) ?? .infinity
    if isDuration, number > Self.longestDuration { throw fault("is longer than a year") }
    if !isDuration, number > Double(Self.largestCount) { throw fault("is more than there can be") }
  }

  private func isCount(_ key: Range<Int>) -> Bool {
    switch key.count {
    case 5: self.is(key, "count")
    case 7: self.is(key, "dropped") || self.is(key, "samples")
    case 8: self.is(key, "callouts")
    case 12: self.is(key, "major_faults") || self.is(key, "minor_faults")
    case 14: self.is(key, "frames_omitted")
    case 15: self.is(key, "threads_omitted")
    default: false
    }
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

  private func hasForm(_ form: RequiredMember.Form, _ value: Range<Int>) -> Bool {
    switch form {
    case .text: bytes[value.lowerBound] == UInt8(ascii: "\"") && value.count > 2
    case .number: bytes[value.lowerBound] &- 0x30 <= 9
    case .object: bytes[value.lowerBound] == UInt8(ascii: "{")
    case .array: bytes[value.lowerBound] == UInt8(ascii: "[")
    }
  }

  private func noteOutermost(
    _ key: Range<Int>, _ value: Range<Int>, _ member: Range<Int>
  ) throws(Fault) {
    switch key.count {
    case 5:
      if self.is(key, "stall") { parts.stall = value }
      if self.is(key, "stack") { parts.omittableBytes += value.count - 2 }
      if self.is(key, "hello") { (parts.kind, parts.payload) = (.hello, value) }
    case 6:
      if self.is(key, "detail") { (parts.kind, parts.payload) = (.detail, value) }
    case 7:
      if self.is(key, "process") { parts.process = member }
      if self.is(key, "service") { parts.service = value }
      if self.is(key, "message") { parts.message = value }
      if self.is(key, "goodbye") { parts.kind = .goodbye }
      if self.is(key, "threads") {
        guard hasForm(.array, value) else {
          throw Fault(reason: "threads that are no array", position: value.lowerBound)
        }
        parts.omittableBytes += value.count - 2
      }
      if self.is(key, "systemd") {
        guard isStamped else { throw Fault(reason: "a key that is the agent's", position: member.lowerBound) }
        parts.systemd = value
      }
    case 9:
      if self.is(key, "log.level") {
        parts.level = value
        return
      }
      if self.is(key, "call_tree") {
        parts.omittableBytes += value.count
        frame.hasTree = true
      }
    case 10:
      if self.is(key, "@timestamp") { parts.time = value }
    default: break
    }
    // Some databases take "process.pid" for the member pid of process.
    if bytes[key].contains(UInt8(ascii: ".")) {
      throw Fault(reason: "a key with a dot that is not log.level", position: member.lowerBound)
    }
  }
}

/// A member that every report has, and what its value begins with.
private struct RequiredMember {
  enum Form { case text, number, object, array }

  var place: LineScanner.Place
  var key: StaticString
  var form: Form
  // No String, which would be counted at each look.
  var path: StaticString

  init(_ place: LineScanner.Place, _ key: StaticString, _ form: Form, _ path: StaticString) {
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
