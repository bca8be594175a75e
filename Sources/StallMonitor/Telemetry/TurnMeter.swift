import TurnSource

/// Reads what a loop has counted of its turns since the watch began.
final class TurnMeter: Sendable {
  let loop: any TurnSource
  /// What the loop had counted when the watch began.
  let earlier: TurnHistogram

  /// - Parameters:
  ///   - loop: The loop.
  ///   - isRead: Whether a metrics backend reads the counts.
  init(of loop: any TurnSource, isRead: Bool) {
    self.loop = loop
    earlier = isRead ? TurnHistogram(of: loop) : TurnHistogram()
  }

  /// What the loop has counted by now.
  ///
  /// From any thread; allocates some KB.
  var histogram: TurnHistogram { TurnHistogram(of: loop) }
}
