import Synchronization

extension Loop {
  /// A closure that is called at chosen moments of each run.
  ///
  /// Observers are called in ascending order, ties in the order of addition, and never from within themselves. They
  /// don't keep a mode from being empty.
  /// An observer belongs to one loop. All members may be used on any thread; the closure is called on the loop's.
  public final class Observer: @unchecked Sendable {
    // @unchecked: what is not atomic or constant is touched by the loop's thread alone.

    /// The activities at which the observer is called.
    public let activities: Activity
    /// The place among other observers, ascending.
    public let order: Int
    /// Whether the observer stays after its first call.
    public let repeats: Bool
    let callSite: CallSite
    let body: (Observer, Activity) -> Void
    let binding = LoopBinding()
    private let valid = Atomic<Bool>(true)
    @exclusivity(unchecked) var isFiring = false
    /// The modes it was added to.
    @exclusivity(unchecked) var keys = ModeKeys()
    @exclusivity(unchecked) var sequence: UInt = 0

    /// Makes an observer; it is called once it is added to a loop.
    ///
    /// - Parameters:
    ///   - activities: When to call it.
    ///   - order: Its place, ascending.
    ///   - repeats: False for an observer that becomes invalid with its first call.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread with the observer and the one activity.
    public init(
      _ activities: Activity, order: Int = 0, repeats: Bool = true, name: StaticString? = nil,
      file: StaticString = #fileID, line: UInt32 = #line, body: sending @escaping (Observer, Activity) -> Void
    ) {
      self.activities = activities
      self.order = order
      self.repeats = repeats
      self.body = body
      callSite = CallSite(file, line, name)
    }

    /// Whether the observer may still be called.
    public var isValid: Bool { valid.load(ordering: .sequentiallyConsistent) }

    /// Removes the observer from its loop for good; it is not called again, except for a call that is already running.
    public func invalidate() {
      guard valid.exchange(false, ordering: .sequentiallyConsistent) else { return }
      binding.loop?.remove(self)
    }

    /// Calls the closure.
    ///
    /// The closure is a constant of a guaranteed object, so this retains nothing.
    @inline(__always)
    func call(_ activity: Activity) {
      body(self, activity)
    }
  }
}

/// One line of a mode's observer table.
struct ObserverEntry {
  var mask: UInt
  /// Retained by the table.
  var observer: Unmanaged<Loop.Observer>
}
