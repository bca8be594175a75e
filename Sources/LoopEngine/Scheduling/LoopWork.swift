import Synchronization

extension Loop {
  /// A scheduled block that can be cancelled, alone or with all work of its target.
  public final class Work: @unchecked Sendable {
    // @unchecked: what is not atomic or constant is touched by the loop's thread alone.
    let order: Int
    let modes: SeveralModes
    let callSite: CallSite
    /// Held until the work has run or is cancelled, so that no other object can take over its identity.
    @exclusivity(unchecked) var target: (any AnyObject & Sendable)?
    @exclusivity(unchecked) var body: (() -> Void)?
    @exclusivity(unchecked) var timer: Timer?
    @exclusivity(unchecked) var sequence: UInt = 0
    private let loop: Loop
    let pending = Atomic<Bool>(true)

    init(
      loop: Loop, order: Int, modes: SeveralModes, callSite: CallSite, target: (any AnyObject & Sendable)?,
      body: @escaping () -> Void
    ) {
      self.loop = loop
      self.order = order
      self.modes = modes
      self.callSite = callSite
      self.target = target
      self.body = body
    }

    /// Whether the work is still waiting to run.
    public var isPending: Bool { pending.load(ordering: .acquiring) }

    /// Cancels the work; on return, the work has run, is running, or will never run.
    public func cancel() {
      guard pending.exchange(false, ordering: .acquiringAndReleasing) else { return }
      loop.change(waking: false) { self.loop.forget(self) }
    }
  }

  /// Schedules a closure that runs once, in a given order, and that can be cancelled.
  ///
  /// Work without a delay that is to run in the same pass runs in ascending order, ties in the order of the calls; delayed work runs
  /// when it is due, by date.
  ///
  /// - Parameters:
  ///   - delay: How long to wait; zero or less: in the current or next pass.
  ///   - tolerance: How much later than its date delayed work may run; no effect without a delay.
  ///   - order: The place among other cancellable work.
  ///   - target: The object by which ``cancelWork(for:)`` finds the work; held until the work has run or is cancelled.
  ///   - mode: The mode in which it may run.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the loop's thread.
  /// - Returns: The work, for its cancellation; it is not pending if the loop's thread has ended.
  @discardableResult
  public func performCancellable(
    after delay: Duration = .zero, tolerance: Duration = .zero, order: Int = 0,
    target: (any AnyObject & Sendable)? = nil, in mode: Mode = .common, name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping () -> Void
  ) -> Work {
    performCancellable(
      after: delay, tolerance: tolerance, order: order, target: target, in: [mode], name: name, file: file, line: line,
      body)
  }

  /// Schedules a closure that runs once in any of several modes, in a given order, and that can be cancelled.
  ///
  /// - Parameters:
  ///   - delay: How long to wait; zero or less: in the current or next pass.
  ///   - tolerance: How much later than its date delayed work may run; no effect without a delay.
  ///   - order: The place among other cancellable work.
  ///   - target: The object by which ``cancelWork(for:)`` finds the work; held until the work has run or is cancelled.
  ///   - modes: The modes in which it may run. An empty set is never served.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the loop's thread.
  /// - Returns: The work, for its cancellation; it is not pending if the loop's thread has ended.
  @discardableResult
  public func performCancellable(
    after delay: Duration = .zero, tolerance: Duration = .zero, order: Int = 0,
    target: (any AnyObject & Sendable)? = nil, in modes: [Mode], name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping () -> Void
  ) -> Work {
    let callSite = CallSite(file, line, name)
    let set = SeveralModes(modes, of: self)
    let work = Work(loop: self, order: order, modes: set, callSite: callSite, target: target, body: body)
    if delay > .zero {
      let timer = Timer(after: delay, tolerance: tolerance, name: name, file: file, line: line) { [unowned self] _ in
        self.run(work)
      }
      let isTaken = change {
        guard work.isPending else { return }
        work.timer = timer
        self.pendingWork[ObjectIdentifier(work)] = work
        for mode in modes { self.add(timer, to: mode) }
      }
      if !isTaken { drop(work) }
    } else {
      let isTaken = change(waking: false) {
        guard work.isPending else { return }
        work.sequence = self.takeSequence()
        self.pendingWork[ObjectIdentifier(work)] = work
      }
      if !isTaken {
        drop(work)
        return work
      }
      // Each work has a block of its own in the queue; the first that comes runs all that are due, in order.
      _ = enqueue(
        WorkItem(modes: set.number, callSite: callSite) { [unowned self] in
          withExtendedLifetime(set) { self.runDueWork() }
        })
    }
    return work
  }

  /// Cancels all work of a target, compared by identity; soon, when called on another thread than the loop's.
  public func cancelWork(for target: AnyObject) {
    let identity = ObjectIdentifier(target)
    change(waking: false) {
      for work in self.pendingWork.values where work.target.map(ObjectIdentifier.init) == identity { work.cancel() }
    }
  }

  // MARK: On the loop's thread

  private func runDueWork() {
    assertOwner()
    guard let mode = current?.takeUnretainedValue() else { return }
    let due = pendingWork.values.filter { $0.timer == nil && matches($0.modes.number, mode) }
      .sorted { ($0.order, $0.sequence) < ($1.order, $1.sequence) }
    // Each stays pending until its turn: an earlier one may cancel it, or run the loop, which
    // continues here.
    for work in due { run(work) }
  }

  private func run(_ work: Work) {
    pendingWork[ObjectIdentifier(work)] = nil
    guard work.pending.exchange(false, ordering: .acquiringAndReleasing), let body = work.body else { return }
    let target = work.target
    forgetContents(of: work)
    published.publish(.block, work.callSite)
    withExtendedLifetime(target) { body() }
  }

  fileprivate func forget(_ work: Work) {
    assertOwner()
    pendingWork[ObjectIdentifier(work)] = nil
    forgetContents(of: work)
  }

  /// Drops work that will never run.
  ///
  /// For the loop's thread, or for a thread whose work the loop has refused.
  func drop(_ work: Work) {
    work.pending.store(false, ordering: .releasing)
    forgetContents(of: work)
  }

  private func forgetContents(of work: Work) {
    work.timer?.invalidate()
    work.timer = nil
    work.body = nil
    work.target = nil
  }
}
