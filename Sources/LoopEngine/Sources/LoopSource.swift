import Synchronization

extension Loop {
  /// A source of work that somebody signals: CoreFoundation's version 0.
  ///
  /// Signals between two performs count as one. Signalling does not wake the loop; ``Loop/wakeUp()`` does. A source
  /// belongs to one loop.
  /// All members may be used on any thread; the closures are called on the loop's.
  public final class Source: @unchecked Sendable {
    // @unchecked: what is not atomic or constant is touched by the loop's thread alone.

    /// The place among signalled sources, ascending; ties go by the time of the signal.
    public let order: Int
    let callSite: CallSite
    let perform: () -> Void
    let didSchedule: ((Loop, Mode) -> Void)?
    let didCancel: ((Loop, Mode) -> Void)?
    let binding = LoopBinding()
    private let valid = Atomic<Bool>(true)
    let signalled = Atomic<Bool>(false)
    @exclusivity(unchecked) var keys = ModeKeys()
    /// Its place among the signalled sources, if it is one of them.
    @exclusivity(unchecked) var signalIndex = SignalledSources.noIndex

    /// Makes a source; it works once it is added to a loop.
    ///
    /// - Parameters:
    ///   - order: Its place among the sources that are signalled at the same time, ascending.
    ///   - name: What the monitor calls it in a report.
    ///   - didSchedule: Called when the source was added to a mode, with the mode: for `.common` once, with `.common`.
    ///   - didCancel: Called when the source was taken out of a mode, also by its invalidation and by its loop's end: once for each
    ///     `didSchedule`.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - perform: Called once for any number of signals.
    public init(
      order: Int = 0, name: StaticString? = nil, didSchedule: sending ((Loop, Mode) -> Void)? = nil,
      didCancel: sending ((Loop, Mode) -> Void)? = nil, file: StaticString = #fileID, line: UInt32 = #line,
      perform: sending @escaping () -> Void
    ) {
      self.order = order
      self.perform = perform
      self.didSchedule = didSchedule
      self.didCancel = didCancel
      callSite = CallSite(file, line, name)
    }

    /// Makes a source that represents another one.
    init(for callSite: CallSite, perform: @escaping () -> Void) {
      order = 0
      self.perform = perform
      didSchedule = nil
      didCancel = nil
      self.callSite = callSite
    }

    /// Whether the source can still be performed.
    public var isValid: Bool { valid.load(ordering: .sequentiallyConsistent) }

    /// Whether it waits to be performed.
    public var isSignalled: Bool { signalled.load(ordering: .acquiring) }

    /// Asks for one perform in the loop's next pass, without waking the loop.
    ///
    /// A no-op on an invalid source.
    public func signal() {
      guard isValid, !signalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
      binding.loop?.sourceWasSignalled(self)
    }

    /// Removes the source from its loop for good.
    public func invalidate() {
      guard valid.exchange(false, ordering: .sequentiallyConsistent) else { return }
      binding.loop?.sourceDidBecomeInvalid(self)
    }

    @inline(__always)
    func call() {
      perform()
    }
  }
}
