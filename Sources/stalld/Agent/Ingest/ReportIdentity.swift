/// What makes a report that comes twice the same: `stall.id` and `stall.sequence`.
struct ReportIdentity: Hashable, Sendable {
  /// The 128 bits of the id.
  var high: UInt64
  var low: UInt64
  /// 0 for `stall.fatal`, of which a stall has one, whoever tells it.
  var sequence: UInt64

  /// Nil if the id is not 32 hexadecimal digits.
  init?(id: some Collection<UInt8>, sequence: UInt64) {
    guard id.count == 32 else { return nil }
    var words: (UInt64, UInt64) = (0, 0)
    for (index, byte) in id.enumerated() {
      let digit: UInt8
      switch byte {
      case 0x30...0x39: digit = byte - 0x30
      case 0x61...0x66: digit = byte - 0x61 + 10
      default: return nil
      }
      if index < 16 { words.0 = words.0 << 4 | UInt64(digit) } else { words.1 = words.1 << 4 | UInt64(digit) }
    }
    (high, low) = words
    self.sequence = sequence
  }
}

/// The reports that were taken last, so that one which comes again is known.
struct RecentReports {
  /// At ten thousand a second, six seconds: a host repeats what was written and not yet acknowledged.
  private static let limit = 1 << 16

  private var known: Set<ReportIdentity> = []
  private var order: [ReportIdentity] = []
  private var oldest = 0

  /// Whether it is new; then it is remembered.
  mutating func insert(_ identity: ReportIdentity) -> Bool {
    guard known.insert(identity).inserted else { return false }
    if order.count < Self.limit {
      order.append(identity)
    } else {
      known.remove(order[oldest])
      order[oldest] = identity
      oldest = (oldest + 1) % Self.limit
    }
    return true
  }
}
