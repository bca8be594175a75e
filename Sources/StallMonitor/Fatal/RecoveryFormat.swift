/// What the page looks like on which a service's loops note that a stall is over: a head, and a slot for each loop.
///
/// It is memory that the agent makes, the service maps and the agent reads once the service's process has ended. All stalls that last are on it. Numbers are in the
/// machine's byte order; the page never leaves it.
package enum RecoveryFormat {
  /// `STALLRCV`, read as a little-endian number.
  static let magic: UInt64 = 0x5643_524c_4c41_5453
  package static let version: UInt64 = 1
  package static let size = 4096

  static let magicOffset = 0
  static let versionOffset = 8
  /// Not 0 if there are more loops than slots.
  static let incompleteOffset = 16

  static let slotSize = 64
  static let slotCount = size / slotSize - 1

  // Within a slot, which begins at a multiple of its size.
  /// The 128 bits of the id.
  static let highOffset = 0
  static let lowOffset = 8
  /// The word of the late turn.
  static let turnOffset = 16
  /// The time that a duration counts from, on the monotonic clock.
  static let sinceOffset = 24
  /// What the loop has passed since: 0 while the stall lasts.
  static let passedOffset = 32
  /// When, on the same clock.
  static let passedTimeOffset = 40

  /// The watchdog's own mark in `passedOffset`; no turn has this word, because its phase is
  /// invalid.
  static let closed = UInt64.max

  /// The outcome of a stall that the process had reported before it ended.
  package enum Fate: Equatable {
    /// The process ended in it.
    case lasted
    /// It was over, after so many nanoseconds, if that is known.
    case over(UInt64?)
    case unknown
  }

  /// The two halves of an id; nil if it is not 32 hexadecimal digits.
  package static func words(of id: some StringProtocol) -> (high: UInt64, low: UInt64)? {
    guard id.utf8.count == 32, id.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
      let high = UInt64(id.prefix(16), radix: 16), let low = UInt64(id.suffix(16), radix: 16)
    else { return nil }
    return (high, low)
  }

  /// Reads a dead process's page.
  ///
  /// Nothing in it is trusted.
  package static func fate(of id: String, on page: UnsafeRawBufferPointer) -> Fate {
    func word(_ offset: Int) -> UInt64 { page.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
    guard page.count == size, word(magicOffset) == magic, word(versionOffset) == version, let words = words(of: id)
    else { return .unknown }
    for start in stride(from: slotSize, to: size, by: slotSize)
    where word(start + highOffset) == words.high && word(start + lowOffset) == words.low {
      let passed = word(start + passedOffset)
      // The loop passes the beginning of the late turn itself if it is asked for its end that early.
      if passed == 0 || passed == word(start + turnOffset) { return .lasted }
      let (since, end) = (word(start + sinceOffset), word(start + passedTimeOffset))
      return .over(end > since ? end - since : nil)
    }
    // Another stall of the same loop has taken its slot.
    return word(incompleteOffset) == 0 ? .over(nil) : .unknown
  }
}
