import Synchronization

extension Loop {
  /// A closure that runs at a set time, once or repeatedly.
  ///
  /// The loop holds the timer while it is scheduled, and releases the closure when the timer becomes invalid. The
  /// closure gets the timer as its argument and need not capture it. A timer belongs to one loop.
  /// All members may be used on any thread; the closure is called on the loop's.
  public final class Timer: @unchecked Sendable {
    // @unchecked: what is not atomic or constant is touched by the loop's thread alone.
    let callSite: CallSite
    /// Nanoseconds between firings, 0 for a timer that fires once.
    private let repetition: Atomic<Int64>
    @exclusivity(unchecked) var body: ((Timer) -> Void)?
    let binding = LoopBinding()
    private let deadline: Atomic<Int64>
    private let tolerance: Atomic<Int64>
    let valid = Atomic<Bool>(true)

    // The loop's side: the first mode inline, as most timers are in one (or in `.common`, which counts as one).
    @exclusivity(unchecked) var slot = TimerHeap.noSlot
    private let firstKey = Atomic<Int32>(Timer.noKey)
    /// Written by the loop's thread alone.
    @inline(__always)
    var key: Int32 {
      get { firstKey.load(ordering: .relaxed) }
      set { firstKey.store(newValue, ordering: .relaxed) }
    }
    @exclusivity(unchecked) var isFiring = false
    /// Whether it is firing for the only time; the loop's reference then belongs to the firing.
    @exclusivity(unchecked) var isFiringOnce = false
    @exclusivity(unchecked) var wasMovedWhileFiring = false
    /// Whether the heaps count this timer among those with a tolerance.
    @exclusivity(unchecked) var countsAsTolerant = false
    /// Its further modes; they change under the lock of the loop's memberships.
    @exclusivity(unchecked) var others: [(key: Int32, slot: Int32)]?

    static var noKey: Int32 { .min }
    /// The key of a timer that was added to all common modes and then taken out of one: it is in the others one by one.
    static var spreadKey: Int32 { .max }

    func has(_ key: Int32) -> Bool { self.key == key || others?.contains { $0.key == key } ?? false }

    /// Makes a timer; it runs once it is added to a loop.
    ///
    /// - Parameters:
    ///   - date: The first time it fires; one that is past fires at the next opportunity, but never from within its
    ///     addition.
    ///   - interval: The time between firings, counted from `date` and not from the end of a firing; nil or not
    ///     positive: it fires once. A positive interval below 1 ns counts as 1 ns.
    ///     Times missed while the loop was busy are skipped, the grid is kept.
    ///   - tolerance: How much later than its date it may fire, so that one wake-up can serve many timers.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread with the timer.
    public init(
      at date: Instant, every interval: Duration? = nil, tolerance: Duration = .zero, name: StaticString? = nil,
      file: StaticString = #fileID, line: UInt32 = #line, body: sending @escaping (Timer) -> Void
    ) {
      self.body = body
      callSite = CallSite(file, line, name)
      repetition = Atomic(interval?.intervalNanoseconds ?? 0)
      deadline = Atomic(date.nanoseconds)
      self.tolerance = Atomic(max(0, tolerance.clampedNanoseconds))
    }

    /// Makes a timer that fires a while from now, and then at that interval if it repeats.
    ///
    /// - Parameters:
    ///   - delay: The time from now to the first firing.
    ///   - repeats: Whether it fires again after each further `delay`, or each tenth of a millisecond if that is not
    ///     positive.
    ///   - tolerance: How much later than its date it may fire.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread with the timer.
    public convenience init(
      after delay: Duration, repeats: Bool = false, tolerance: Duration = .zero, name: StaticString? = nil,
      file: StaticString = #fileID, line: UInt32 = #line, body: sending @escaping (Timer) -> Void
    ) {
      self.init(
        at: .now.advanced(by: delay), every: repeats ? (delay > .zero ? delay : .microseconds(100)) : nil,
        tolerance: tolerance, name: name, file: file,
        line: line, body: body)
    }

    /// Whether the timer can still fire: false after ``invalidate()``, after the firing of one that does not repeat,
    /// and when the loop's thread has ended.
    public var isValid: Bool { valid.load(ordering: .sequentiallyConsistent) }

    /// The time between firings; zero for a timer that fires once.
    ///
    /// Setting it leaves ``nextFireDate`` as it is, and counts from that date on. Zero or less: the next firing is the
    /// last, or the current one if the timer's own closure sets it and no new date. A timer that is firing for the only
    /// time does not begin to repeat.
    public var interval: Duration {
      get { .nanoseconds(intervalNanoseconds) }
      set { repetition.store(newValue.intervalNanoseconds, ordering: .relaxed) }
    }

    /// The next time the timer is due.
    ///
    /// Setting it moves the timer, also from within its own closure. A timer that has fired for the only time stays
    /// invalid.
    public var nextFireDate: Instant {
      get { Instant(nanoseconds: deadline.load(ordering: .relaxed)) }
      set {
        deadline.store(newValue.nanoseconds, ordering: .relaxed)
        binding.withLoop { $0.timerDidChange(self, isMove: true) }
      }
    }

    /// How much later than ``nextFireDate`` the timer may fire.
    public var permittedDelay: Duration {
      get { .nanoseconds(toleranceNanoseconds) }
      set {
        tolerance.store(max(0, newValue.clampedNanoseconds), ordering: .relaxed)
        binding.withLoop { $0.timerDidChange(self, isMove: false) }
      }
    }

    /// Calls the closure now, whether the timer is due or not.
    ///
    /// A repeating timer keeps its dates, also one that is past. A timer that fires once is invalid afterwards. On the loop's thread,
    /// the closure has returned when this returns, whatever the mode. On another thread, the loop calls it soon, in a common mode.
    ///
    /// - Returns: False if the timer is invalid, is firing, or was never added to a loop, or if the loop's thread has ended.
    @discardableResult
    public func fire() -> Bool {
      guard isValid, let loop = binding.loop else { return false }
      if loop.isOwner {
        loop.absorb()
        return loop.fireNow(self)
      }
      return loop.enqueue(WorkItem(modes: Mode.common.id, callSite: callSite) { _ = loop.fireNow(self) })
    }

    /// Stops the timer permanently, and releases its closure.
    ///
    /// A firing that is already running continues. If this is not called on the loop's thread, the loop releases the closure when it
    /// next turns.
    public func invalidate() {
      guard valid.exchange(false, ordering: .sequentiallyConsistent) else { return }
      if !binding.withLoop({ $0.timerDidBecomeInvalid(self) }) { body = nil }
    }

    /// The loop's thread ends.
    func endWithLoop() {
      valid.store(false, ordering: .releasing)
      key = Timer.noKey
      slot = TimerHeap.noSlot
      others = nil
      body = nil
    }

    @inline(__always)
    var intervalNanoseconds: Int64 { repetition.load(ordering: .relaxed) }
    @inline(__always)
    var deadlineNanoseconds: Int64 { deadline.load(ordering: .relaxed) }
    @inline(__always)
    var toleranceNanoseconds: Int64 { tolerance.load(ordering: .relaxed) }

    /// Continues from the date that has been served, unless another thread has set one meanwhile.
    @inline(__always)
    func advance(from due: Int64, by interval: Int64, now: Int64) {
      let next = Timer.nextDeadline(after: now, due: due, interval: interval)
      _ = deadline.compareExchange(expected: due, desired: next, ordering: .relaxed)
    }

    /// The time of the next firing after `now` on the grid of a repeating timer that was due at `due`: computed,
    /// however many were missed.
    static func nextDeadline(after now: Int64, due: Int64, interval: Int64) -> Int64 {
      if due > now { return due }
      // The distance may be more than a signed integer holds: from the distant past.
      let sinceLast = Int64(UInt64(bitPattern: now &- due) % UInt64(interval))
      return now.addingSaturated(interval - sinceLast)
    }
  }
}

extension Duration {
  /// The duration as a timer's interval: 0 if it is not positive, and at least a nanosecond otherwise.
  fileprivate var intervalNanoseconds: Int64 { self > .zero ? max(1, clampedNanoseconds) : 0 }
}
