import StallReport

/// What makes a report that comes twice the same: `stall.id`, `stall.sequence`, and the user whose it is.
///
/// So a process that knows another's id cannot replace its next line. The process is no part of it: another process may deliver its lines.
struct ReportIdentity: Hashable, Sendable {
  /// The 128 bits of the id.
  var high: UInt64
  var low: UInt64
  /// The line's number; `stall.fatal` and `stall.ended` have fixed ones, because a stall has one of
  /// each, whichever process reports it.
  var sequence: UInt64
  var user: UInt32

  private static let fatal: UInt64 = 0
  private static let ended = UInt64.max

  /// Nil if the id is not 32 hexadecimal digits.
  @inline(__always)
  init?(id: some Collection<UInt8>, sequence: UInt64, user: UInt32 = 0) {
    guard let words = Hexadecimal.words(of: id) else { return nil }
    (high, low) = words
    self.sequence = sequence
    self.user = user
  }

  /// The same of root: what root has sent is known from any user.
  var ofRoot: ReportIdentity {
    var identity = self
    identity.user = 0
    return identity
  }

  /// Of a report by its event.
  @inline(__always)
  init?(id: some Collection<UInt8>, event: String, sequence: UInt64, user: UInt32) {
    let own: UInt64 =
      switch Report.Event(rawValue: event) {
      case .fatal: Self.fatal
      case .ended: Self.ended
      case .started, .ongoing, .suppressed, nil: sequence
      }
    self.init(id: id, sequence: own, user: user)
  }
}
