import Glibc
import StallMonitor
import StallReport

/// What one thread makes of the lines that it reads; such are merged at the end.
struct ReportPass {
  /// Which lines count.
  struct Filter: Sendable {
    /// Lines made before are left out; in seconds since 1970.
    var since = -Double.infinity
    /// A pattern as of fnmatch(3) that `service.name` is to match.
    var service: String?
  }

  private(set) var texts = TextTable()
  private(set) var stacks = StackTable()
  private(set) var stalls = StallTable()
  private(set) var skipped = SkippedLines()
  private(set) var causes: [String] = []
  private(set) var lines = 0
  /// Files that could not be read, or not to their end.
  var unreadable: [InputFiles.Failure] = []

  /// In seconds since 1970: nanoseconds of them, which programs that read exports count in, fit in 64 bits.
  private static let times = 0..<9_214_646_400.0
  /// In milliseconds: up to 366 days.
  private static let durations = 0...366 * 86_400_000.0

  let filter: Filter
  private var services: [UInt32: Bool] = [:]
  private var causeNumbers: [UInt32: UInt8] = [:]
  private var scratch: [UInt8] = []

  init(_ filter: Filter = Filter()) { self.filter = filter }

  /// Reads one line without its newline; blank lines are ignored.
  mutating func read(_ line: UnsafeBufferPointer<UInt8>, file: String, fileIndex: Int, number: Int) {
    guard line.contains(where: { $0 > 0x20 }) else { return }
    lines += 1
    do {
      try read(line, ReportScanner.scan(line))
    } catch {
      skip(file: file, fileIndex: fileIndex, number: number, reason: "\(error.reason)")
    }
  }

  /// Counts a line that is not parsed.
  mutating func skip(file: String, fileIndex: Int, number: Int, reason: String) {
    skipped.add(SkippedLines.Line(file: file, fileIndex: fileIndex, number: number, reason: reason))
  }

  /// Counts a line that is too long to be read.
  mutating func skipLongLine(file: String, fileIndex: Int, number: Int) {
    lines += 1
    skip(file: file, fileIndex: fileIndex, number: number, reason: "longer than \(LineBlocks.longestLine) bytes")
  }

  private mutating func read(
    _ line: UnsafeBufferPointer<UInt8>, _ members: ReportScanner.Members
  ) throws(ReportScanner.Fault) {
    let event = bytes(members.event, line)
    guard Self.starts(event, with: "stall."), Self.starts(bytes(members.schema, line), with: "1.") else {
      throw ReportScanner.Fault(
        reason: members.event.isPresent ? "not a stall report of version 1" : "not a stall report")
    }
    guard let id = ReportIdentity(id: bytes(members.stallID, line), sequence: 0) else {
      throw ReportScanner.Fault(reason: "stall.id is not 32 hexadecimal digits")
    }
    guard let time = Timestamp(rfc3339: bytes(members.time, line), form: .any)?.secondsSince1970 else {
      throw ReportScanner.Fault(reason: "@timestamp is not an RFC 3339 time")
    }
    guard Self.times.contains(time) else {
      throw ReportScanner.Fault(reason: "@timestamp is not between 1970 and 2261")
    }
    guard let duration = Self.number(bytes(members.duration, line)), Self.durations.contains(duration) else {
      throw ReportScanner.Fault(reason: "stall.duration_ms is not a duration of at most 366 days")
    }
    guard members.cause.isPresent else { throw ReportScanner.Fault(reason: "stall.cause is missing") }
    let isSummary = Self.equals(event, "stall.suppressed")
    let count = isSummary ? Self.number(bytes(members.suppressedCount, line)) ?? 0 : 1
    guard count >= 1, count <= Double(UInt32.max) else {
      throw ReportScanner.Fault(reason: "stall.suppressed.count is not a number of stalls")
    }
    guard time >= filter.since else { return }
    let service = text(members.service, line)
    guard isWanted(service) else { return }
    let release = text(members.version, line)

    let state: Stall.State =
      isSummary
      ? .summary
      : Self.equals(event, "stall.ended") ? .ended : Self.equals(event, "stall.fatal") ? .fatal : .underWay
    let span = isSummary ? try Self.duration(bytes(members.suppressedWindow, line)) ?? 0 : duration
    var stall = Stall(
      idHigh: id.high, idLow: id.low, start: time - span / 1000, milliseconds: duration, count: UInt32(count),
      sequence: Self.number(bytes(members.sequence, line)).flatMap { UInt32(exactly: $0.rounded()) } ?? 0,
      state: state)
    if isSummary {
      stall.milliseconds = try Self.duration(bytes(members.suppressedTotal, line), of: count) ?? duration
      stall.longestMilliseconds = Float(try Self.duration(bytes(members.suppressedLongest, line)) ?? 0)
    }
    stall.service = service
    stall.release = release
    stall.culprit = text(members.culprit, line)
    stall.fingerprint = text(members.fingerprint, line)
    stall.host = text(members.host, line)
    stall.loop = text(members.loop, line)
    stall.cause = causeNumber(text(members.cause, line))
    if members.stack.isPresent, !isSummary { stall.stack = stack(line, members.stack) }
    stalls.add(stall)
  }

  private mutating func isWanted(_ service: UInt32) -> Bool {
    guard let pattern = filter.service else { return true }
    if let known = services[service] { return known }
    let matches = fnmatch(pattern, texts[service], 0) == 0
    services[service] = matches
    return matches
  }

  private mutating func causeNumber(_ text: UInt32) -> UInt8 {
    if let known = causeNumbers[text] { return known }
    // Far fewer are defined. All beyond are unknown, and count as one.
    let name = causes.count < 64 ? texts[text] : "unknown"
    let number = causes.firstIndex(of: name) ?? causes.count
    if number == causes.count { causes.append(name) }
    if causeNumbers.count < 1024 { causeNumbers[text] = UInt8(number) }
    return UInt8(number)
  }

  private mutating func stack(_ line: UnsafeBufferPointer<UInt8>, _ value: ReportScanner.Bytes) -> UInt32 {
    let bytes = bytes(value, line)
    guard bytes.count > 2 else { return Stall.noStack }
    let hash = WordHash.wide(bytes)
    if let known = stacks.stack(writtenAs: hash) { return known }
    var frames: [ReportFrame] = []
    for frame in StackScanner.frames(bytes) {
      frames.append(
        ReportFrame(
          symbol: text(frame.symbol, bytes), file: text(frame.file, bytes),
          line: frame.line.isPresent ? UInt32(exactly: Self.number(self.bytes(frame.line, bytes)) ?? 0) ?? 0 : 0,
          module: text(frame.module, bytes), buildID: text(frame.buildID, bytes), isInlined: frame.isInlined,
          isAsync: frame.isAsync,
          offset: Hexadecimal.number(String(decoding: self.bytes(frame.offset, bytes), as: UTF8.self))))
    }
    let number = stacks.number(of: frames)
    stacks.remember(number, writtenAs: hash)
    return number
  }

  // MARK: Values

  private func bytes(
    _ value: ReportScanner.Bytes, _ line: UnsafeBufferPointer<UInt8>
  ) -> UnsafeBufferPointer<UInt8> {
    value.isPresent ? UnsafeBufferPointer(rebasing: line[value.range]) : UnsafeBufferPointer(rebasing: line[0..<0])
  }

  private mutating func text(_ value: ReportScanner.Bytes, _ line: UnsafeBufferPointer<UInt8>) -> UInt32 {
    guard value.isPresent else { return 0 }
    guard value.hasEscapes else { return texts.number(of: bytes(value, line)) }
    return texts.number(of: JSONValues.string(bytes(value, line)))
  }

  private static func starts(_ bytes: UnsafeBufferPointer<UInt8>, with word: StaticString) -> Bool {
    guard let base = bytes.baseAddress, bytes.count >= word.utf8CodeUnitCount else { return false }
    return memcmp(base, word.utf8Start, word.utf8CodeUnitCount) == 0
  }

  private static func equals(_ bytes: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
    bytes.count == word.utf8CodeUnitCount && starts(bytes, with: word)
  }

  /// A JSON number; nil for anything else.
  static func number(_ bytes: UnsafeBufferPointer<UInt8>) -> Double? {
    bytes.count <= 64 ? JSONValues.number(bytes) : nil
  }

  /// The duration of so many stalls together, in milliseconds; nil if that is no number.
  private static func duration(
    _ bytes: UnsafeBufferPointer<UInt8>, of count: Double = 1
  ) throws(ReportScanner.Fault) -> Double? {
    guard let number = number(bytes) else { return nil }
    guard durations.contains(number / count) else {
      throw ReportScanner.Fault(
        reason: "stall.suppressed has a duration that is not between 0 and 366 days for a stall")
    }
    return number
  }

  // MARK: Merging

  /// Takes over what another thread has read.
  mutating func merge(_ other: consuming ReportPass) {
    lines += other.lines
    skipped.add(other.skipped)
    stacks.addOmitted(other.stacks.omitted)
    var textNumbers = [UInt32](repeating: 0, count: other.texts.count)
    for number in textNumbers.indices.dropFirst() {
      textNumbers[number] = texts.number(of: UInt32(number), in: other.texts)
    }
    let causeNumbers = other.causes.map { causeNumber(texts.number(of: $0)) }
    let frames = other.stacks.frames.map { frame in
      var frame = frame
      frame.symbol = textNumbers[Int(frame.symbol)]
      frame.file = textNumbers[Int(frame.file)]
      frame.module = textNumbers[Int(frame.module)]
      frame.buildID = textNumbers[Int(frame.buildID)]
      return frame
    }
    let stackNumbers = (0..<UInt32(other.stacks.count)).map { stack in
      stacks.number(of: other.stacks[stack].map { frames[Int($0)] })
    }
    var rows = other.takeStalls()
    rows.drain { stall in
      var stall = stall
      for text in Stall.texts { stall[keyPath: text] = textNumbers[Int(stall[keyPath: text])] }
      stall.cause = causeNumbers[Int(stall.cause)]
      if stall.stack != Stall.noStack { stall.stack = stackNumbers[Int(stall.stack)] }
      stalls.add(stall)
    }
  }

  /// The releases of all stalls, sorted; stalls without one have none.
  var releases: [String] { Set(stalls.lazy.map(\.release)).subtracting([0]).map { texts[$0] }.sorted() }

  /// Hands the rows over, without a copy.
  mutating func takeStalls() -> StallTable {
    defer { stalls = StallTable() }
    return stalls
  }
}
