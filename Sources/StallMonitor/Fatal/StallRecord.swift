import StallReport

/// The format of the file of a running stall: a head, and two slots for a report line.
///
/// One of them is valid.
///
/// A line is written to the other slot, and then one store in the head makes that slot valid: a
/// process that ends in the middle leaves the older line whole. Numbers are in the machine's byte
/// order; the file never leaves it.
enum StallRecord {
  /// `STALLREC`, read as a little-endian number.
  static let magic: UInt64 = 0x4345_524c_4c41_5453
  static let version: UInt64 = 1

  static let magicOffset = 0
  static let versionOffset = 8
  /// The word of the late turn.
  static let turnOffset = 16
  /// What the loop has passed since: 0 while the stall lasts.
  static let passedOffset = 64
  /// Which slot is valid, 0 or 1.
  static let validOffset = 128

  static let headSize = 4096
  static let slotSize = 8192
  static let size = headSize + 2 * slotSize

  // Within a slot.
  static let lengthOffset = 0
  static let checksumOffset = 8
  static let lineOffset = 16
  /// The longest line that a slot holds.
  static let longestLine = slotSize - lineOffset

  /// The watchdog's own mark in `passedOffset`; no turn has this word, because its phase is
  /// invalid.
  static let closed = UInt64.max

  /// Over a line and the turn that it is about.
  static func checksum(of line: some Sequence<UInt8>, turn: UInt64) -> UInt64 {
    var hash = FNV1a(seed: turn)
    hash.combine(line)
    return hash.value
  }

  /// What a dead process's file says.
  enum Content: Equatable {
    /// It ended in this stall: the report's line, with its newline.
    case fatal([UInt8])
    /// The stall was over.
    case over
    /// The file has no report.
    case unusable(reason: String)
  }

  /// Reads a file.
  ///
  /// Nothing in it is trusted.
  static func read(_ file: UnsafeRawBufferPointer) -> Content {
    guard file.count == size else { return .unusable(reason: "its size is wrong") }
    func word(_ offset: Int) -> UInt64 { file.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
    guard word(magicOffset) == magic else { return .unusable(reason: "it is not a stall record") }
    guard word(versionOffset) == version else { return .unusable(reason: "another version wrote it") }
    let turn = word(turnOffset)
    let passed = word(passedOffset)
    // The loop passes the beginning of the late turn itself if it is asked for its end that early.
    guard passed == 0 || passed == turn else { return .over }
    let valid = word(validOffset)
    guard valid <= 1 else { return .unusable(reason: "it is damaged") }
    let slot = headSize + Int(valid) * slotSize
    let length = word(slot + lengthOffset)
    guard length > 1, length <= UInt64(Report.longestLine) else { return .unusable(reason: "it is damaged") }
    let line = file[(slot + lineOffset)..<(slot + lineOffset + Int(length))]
    guard checksum(of: line, turn: turn) == word(slot + checksumOffset) else {
      return .unusable(reason: "it is damaged")
    }
    guard LineValidator.isReport(line, event: "stall.fatal\"") else {
      return .unusable(reason: "it contains no report")
    }
    return .fatal(Array(line))
  }
}
