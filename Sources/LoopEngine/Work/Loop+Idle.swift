extension Loop {
  /// Runs a closure once when the loop would otherwise wait: at most one such a turn, and only if no event is ready.
  ///
  /// - Parameters:
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the loop's thread, in whatever mode it is; keep it short.
  /// - Returns: False when the loop's thread has ended.
  @discardableResult
  public func performWhenIdle(
    name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    let origin = Origin(file, line, name)
    return change { self.idleWork.append(WorkItem(modes: 0, origin: origin, body: body)) }
  }

  /// Runs the oldest idle work.
  func runIdleWork() {
    if idleWork.isEmpty { return }
    let item = idleWork.popFirst()
    let outer = published.save()
    published.publish(.idle, item.origin)
    item.body()
    published.restore(outer)
  }
}
