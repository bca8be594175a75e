import LoopEngine

/// Lines a second over about the last minute, without a timer: an average that fades.
struct LineRate {
  private static let window = 60.0
  private var lines = 0.0
  private var time = Loop.Instant.now

  mutating func count(_ count: Int) {
    fade()
    lines += Double(count)
  }

  var perSecond: Double {
    var copy = self
    copy.fade()
    return copy.lines / Self.window
  }

  private mutating func fade() {
    let now = Loop.Instant.now
    lines *= max(0, 1 - Double(now.nanoseconds - time.nanoseconds) / 1e9 / Self.window)
    time = now
  }
}
