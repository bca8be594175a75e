extension Loop {
  /// Runs a closure once when a pass has found nothing else to do: at most one such closure a pass.
  ///
  /// It runs instead of a wait of the loop, or before a run with duration zero ends, unless there is something to serve: a
  /// signalled source, a block, a timer that is due, a ready descriptor. It does not run after a ``stop()``. Until it has run it keeps the
  /// loop's modes from being empty.
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
    _ body: sending @escaping () -> Void
  ) -> Bool {
    let callSite = CallSite(file, line, name)
    return change {
      self.idleWork.append(WorkItem(modes: 0, callSite: callSite, body: body))
      self.mayHaveQuietWork = true
    }
  }

  /// Runs the oldest idle work.
  func runIdleWork() {
    assertOwner()
    if idleWork.isEmpty { return }
    let item = idleWork.popFirst()
    let outer = published.save()
    published.publish(.idle, item.callSite)
    item.body()
    published.restore(outer)
  }
}
