/// What a turn consists of.
package enum TurnPart: Equatable, Sendable {
  /// One piece of work, from its beginning to its end.
  case whole
  /// Several pieces, one after the other. This one runs now; a change means that the one before it has ended.
  case piece(UInt64)
  /// The same, and each change is noticed however short the time between two of them is.
  case certainPiece(UInt64)
  /// Perhaps several pieces since this was met first, and it is not known which of them runs.
  case several(UInt64)

  /// Whether the piece that runs now may have begun in the middle of the turn.
  package var isPiece: Bool {
    switch self {
    case .piece, .certainPiece, .several: true
    case .whole: false
    }
  }

  /// Whether nobody knows what of the turn's work took the time.
  package var isSeveral: Bool { if case .several = self { true } else { false } }

  /// Whether many checks have to find the same piece before it counts as one.
  package var needsConfirmation: Bool { if case .piece = self { true } else { false } }
}
