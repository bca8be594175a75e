extension Loop {
  /// Work that runs once before the loop waits, however often it was requested: a redraw, a flush
  /// of a buffer.
  ///
  /// All members may be used on any thread; the closure is called on the loop's.
  public final class FlushPoint: @unchecked Sendable {
    // @unchecked: what is not constant is touched by the loop's thread alone.

    /// The place among the flush points that are marked, ascending.
    public let order: Int
    let callSite: CallSite
    let body: () -> Void
    private let loop: Loop
    @exclusivity(unchecked) var isMarked = false

    /// Makes a flush point of a loop; a marked one keeps a run from finishing until it was called.
    ///
    /// - Parameters:
    ///   - loop: The loop that calls it.
    ///   - order: Its place among others, ascending.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread before it waits, if the point was marked since the last call.
    public init(
      on loop: Loop, order: Int = 0, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
      _ body: sending @escaping () -> Void
    ) {
      self.loop = loop
      self.order = order
      self.callSite = CallSite(file, line, name)
      self.body = body
    }

    /// Asks for one call before the loop waits next.
    ///
    /// Wakes a sleeping loop. Does nothing once the loop's thread has ended.
    public func mark() {
      loop.change {
        if self.isMarked { return }
        self.isMarked = true
        self.loop.markedFlushPoints.append(self)
        self.loop.mayHaveQuietWork = true
      }
    }
  }

  /// Calls the marked points; what they mark waits for the next pass.
  func flush() {
    assertOwner()
    let points = markedFlushPoints.sorted { $0.order < $1.order }
    markedFlushPoints = []
    let outer = published.save()
    for point in points {
      point.isMarked = false
      published.publish(.flush, point.callSite)
      point.body()
    }
    published.restore(outer)
  }
}
