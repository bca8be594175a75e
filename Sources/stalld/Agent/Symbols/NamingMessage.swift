/// A message between the agent and the process that names functions: a length, and that many bytes.
enum NamingMessage {
  /// What a message begins with.
  static let headSize = 4
  /// More than any line that the agent takes.
  static let longestRequest = 20 << 20

  /// A line to be named, and whose it is.
  struct Request {
    var number: UInt64
    var process: Int32
    var user: UInt32
    var controlGroup: String
    var lane: String
    /// Without its newline.
    var line: [UInt8]
  }

  /// What the worker says.
  struct Answer {
    enum Kind: UInt8 {
      /// It is about to read something for this line.
      case begun
      /// The line stays as it is.
      case unchanged
      /// The line, completed.
      case completed
      /// Another user's file needs more time than others can wait for: the line stays as it is, and may be sent to a patient worker.
      case cut
    }

    var kind: Kind
    var number: UInt64
    /// Of `begun`: only root can have put there what is read; else: no file was found for any of the builds.
    var flag = false
    var hits: UInt32 = 0
    var misses: UInt32 = 0
    /// What the tables and answers take.
    var cacheBytes: UInt64 = 0
    /// Without its newline.
    var line: [UInt8] = []
  }
}

extension NamingMessage.Request {
  var bytes: [UInt8] {
    let (group, lane) = (Array(controlGroup.utf8.prefix(4096)), Array(lane.utf8.prefix(4096)))
    var result: [UInt8] = []
    result.reserveCapacity(32 + group.count + lane.count + line.count)
    result.append(UInt32(20 + group.count + lane.count + line.count))
    result.append(number)
    result.append(UInt32(bitPattern: process))
    result.append(user)
    result.append(UInt16(group.count))
    result.append(UInt16(lane.count))
    return result + group + lane + line
  }

  /// Reads a message without its length.
  init?(_ bytes: ArraySlice<UInt8>) {
    var reader = NamingMessage.Reader(bytes)
    guard let number = reader.take(UInt64.self), let process = reader.take(UInt32.self),
      let user = reader.take(UInt32.self), let groupSize = reader.take(UInt16.self),
      let laneSize = reader.take(UInt16.self), let group = reader.take(Int(groupSize)),
      let lane = reader.take(Int(laneSize))
    else { return nil }
    self.init(
      number: number, process: Int32(bitPattern: process), user: user,
      controlGroup: String(decoding: group, as: UTF8.self), lane: String(decoding: lane, as: UTF8.self),
      line: Array(reader.rest))
  }
}

extension NamingMessage.Answer {
  private static let fixedSize = 26

  var bytes: [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(Self.fixedSize + 4 + line.count)
    result.append(UInt32(Self.fixedSize + line.count))
    result.append(kind.rawValue)
    result.append(UInt8(flag ? 1 : 0))
    result.append(number)
    result.append(hits)
    result.append(misses)
    result.append(cacheBytes)
    return result + line
  }

  /// Reads a message without its length.
  init?(_ bytes: ArraySlice<UInt8>) {
    var reader = NamingMessage.Reader(bytes)
    guard let kind = reader.take(UInt8.self).flatMap(Kind.init), let flag = reader.take(UInt8.self),
      let number = reader.take(UInt64.self), let hits = reader.take(UInt32.self),
      let misses = reader.take(UInt32.self), let cacheBytes = reader.take(UInt64.self)
    else { return nil }
    self.init(
      kind: kind, number: number, flag: flag != 0, hits: hits, misses: misses, cacheBytes: cacheBytes,
      line: Array(reader.rest))
  }
}

extension NamingMessage {
  /// Takes numbers off the front of bytes.
  struct Reader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    mutating func take<Number: FixedWidthInteger>(_: Number.Type) -> Number? {
      guard let bytes = take(MemoryLayout<Number>.size) else { return nil }
      return bytes.reversed().reduce(0) { Number(truncatingIfNeeded: UInt64($0) << 8) | Number($1) }
    }

    mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
      guard rest.count >= count else { return nil }
      defer { rest = rest.dropFirst(count) }
      return rest.prefix(count)
    }
  }

  /// What has come of a stream of messages.
  struct Input {
    private let longest: Int
    private var bytes: [UInt8] = []
    private var first = 0

    /// A message's length was more than the longest.
    private(set) var isBroken = false

    init(longest: Int) { self.longest = longest }

    mutating func append(_ more: some Sequence<UInt8>) {
      if first > 0, first == bytes.count || first > 64 << 10 {
        bytes.removeFirst(first)
        first = 0
      }
      bytes.append(contentsOf: more)
    }

    /// The next whole message without its length, or nil if it has not come yet.
    mutating func next() -> ArraySlice<UInt8>? {
      var reader = Reader(bytes[first...])
      guard !isBroken, let length = reader.take(UInt32.self) else { return nil }
      guard length <= longest else {
        isBroken = true
        return nil
      }
      guard let message = reader.take(Int(length)) else { return nil }
      first = message.endIndex
      return message
    }
  }
}

extension [UInt8] {
  /// Appends a number, least significant byte first.
  fileprivate mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
  }
}
