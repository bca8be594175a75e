import StallReport

/// One stall, or the summary of repeated stalls.
///
/// Small, since there is one for each stall of a million lines. Texts are numbers of ``ReportSummary/texts``.
struct Stall {
  /// The 128 bits of `stall.id`; a summary has the id of the reported stall.
  var idHigh: UInt64
  var idLow: UInt64
  /// When it began, in seconds since 1970; of a summary, when its window did.
  var start: Double
  /// How long it lasted, as its last line says; of a summary, the sum.
  var milliseconds: Double
  var culprit: UInt32 = 0
  var fingerprint: UInt32 = 0
  var service: UInt32 = 0
  var release: UInt32 = 0
  var host: UInt32 = 0
  var loop: UInt32 = 0
  /// Its stack, a number of ``ReportSummary/stacks``; ``noStack`` if there is none.
  var stack = Self.noStack
  /// A number of ``ReportSummary/groups``.
  var group: UInt32 = 0
  /// How many stalls it represents: 1, or as many as a summary counted.
  var count: UInt32 = 1
  var sequence: UInt32
  /// The longest of a summary's; otherwise 0.
  var longestMilliseconds: Float = 0
  /// A number of ``ReportSummary/causes``.
  var cause: UInt8 = 0
  var state: State

  /// What the last of its lines says.
  enum State: UInt8 {
    case underWay = 1
    /// The process ended in it.
    case fatal = 2
    case ended = 3
    /// Not one stall, but several that were counted.
    case summary = 4
  }

  static let noStack = UInt32.max

  /// All members that are numbers of texts.
  static let texts: [WritableKeyPath<Stall, UInt32> & Sendable] = [
    \.culprit, \.fingerprint, \.service, \.release, \.host, \.loop,
  ]

  /// `stall.id` as reports have it.
  var id: String { Hexadecimal.text(idHigh) + Hexadecimal.text(idLow) }

  var isSummary: Bool { state == .summary }

  /// In seconds since 1970.
  var end: Double { start + milliseconds / 1000 }

  /// The longest that it represents.
  var longest: Double { isSummary ? Double(longestMilliseconds) : milliseconds }

  /// Takes over what another line of the same stall says: the last one counts, and what it leaves out the one before has.
  mutating func merge(_ other: Stall) {
    let isLater = (other.state.rawValue, other.sequence) > (state.rawValue, sequence)
    let earlier = isLater ? self : other
    if isLater { self = other }
    if culprit == 0 { culprit = earlier.culprit }
    if fingerprint == 0 { fingerprint = earlier.fingerprint }
    if stack == Self.noStack { stack = earlier.stack }
  }
}
