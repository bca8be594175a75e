import StallReport

/// What a spool's file looks like: a head, and a ring of records, each a line with its length and checksum.
///
/// The head is written before a record's space is used again, and after a new one is whole: a process that ends at any moment leaves
/// whole lines. Numbers are in the machine's byte order; the file never leaves it.
enum SpoolFormat {
  /// `STALLSPL`, read as a little-endian number.
  static let magic: UInt64 = 0x4c50_534c_4c41_5453
  static let version: UInt64 = 1

  /// The size of the largest file.
  static let size = 4 << 20
  static let headSize = 4096
  static let ringSize = size - headSize
  static let recordHeadSize = 8
  /// The longest line in a record.
  static let longestLine = Report.longestUnnamedLine

  static func head(head: Int, used: Int, ringSize: Int = Self.ringSize) -> [UInt8] {
    var words = [magic, version, UInt64(head), UInt64(used), UInt64(ringSize)]
    var hash = FNV1a()
    words.withUnsafeBytes { hash.combine($0) }
    words.append(hash.value)
    return words.withUnsafeBytes { Array($0) }
  }

  static func record(_ line: [UInt8]) -> [UInt8] {
    let words = [UInt32(line.count), checksum(of: line)]
    return words.withUnsafeBytes { Array($0) } + line
  }

  static func isWhole(_ record: [UInt8]) -> Bool {
    record.withUnsafeBytes { bytes in
      bytes.count > recordHeadSize
        && Int(bytes.loadUnaligned(as: UInt32.self)) == bytes.count - recordHeadSize
        && bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == checksum(of: bytes.dropFirst(recordHeadSize))
    }
  }

  private static func checksum(of line: some Sequence<UInt8>) -> UInt32 {
    var hash = FNV1a()
    hash.combine(line)
    return UInt32(truncatingIfNeeded: hash.value ^ (hash.value >> 32))
  }

  /// What a dead process's file says.
  enum Content: Equatable {
    /// The lines, oldest first; `isDamaged` if there were more.
    case lines([[UInt8]], isDamaged: Bool)
    /// The file has no report.
    case unusable(reason: String)
  }

  /// Reads a file.
  ///
  /// Nothing in it is trusted.
  static func read(_ file: UnsafeRawBufferPointer) -> Content {
    guard file.count >= 48, file.count <= size else { return .unusable(reason: "its size is wrong") }
    func word(_ offset: Int) -> UInt64 { file.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
    guard word(0) == magic else { return .unusable(reason: "it is not a spool") }
    guard word(8) == version else { return .unusable(reason: "another version wrote it") }
    var hash = FNV1a()
    hash.combine(file[..<40])
    guard word(40) == hash.value, (1...UInt64(Self.ringSize)).contains(word(32)), word(16) < word(32),
      word(24) <= word(32)
    else { return .unusable(reason: "it is damaged") }
    let ringSize = Int(word(32))
    let ring = UnsafeRawBufferPointer(rebasing: file[min(headSize, file.count)...])
    var position = Int(word(16))
    var left = Int(word(24))
    var lines: [[UInt8]] = []
    func take(_ count: Int) -> [UInt8]? {
      guard count <= left else { return nil }
      var bytes: [UInt8] = []
      bytes.reserveCapacity(count)
      while bytes.count < count {
        let length = min(count - bytes.count, ringSize - position)
        // A file without its end.
        guard position + length <= ring.count else { return nil }
        bytes += ring[position..<(position + length)]
        position = (position + length) % ringSize
      }
      left -= count
      return bytes
    }
    while left > 0 {
      guard let head = take(recordHeadSize) else { return .lines(lines, isDamaged: true) }
      let length = Int(head.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) })
      guard length > 2, length <= longestLine, let line = take(length), isWhole(head + line),
        LineValidator.isReport(line)
      else { return .lines(lines, isDamaged: true) }
      lines.append(line)
    }
    return .lines(lines, isDamaged: false)
  }
}
