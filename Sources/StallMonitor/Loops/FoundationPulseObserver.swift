import CLinux
import PlatformLibc

/// Stamps the transitions of Foundation's run loop, if the service has Foundation.
///
/// CoreFoundation's observers work on Linux; they see the common modes. First in order where a turn begins and last where it
/// ends, so that other observers' work counts as the loop's.
enum FoundationPulseObserver {
  /// Whether an object is a `CFRunLoop`.
  ///
  /// Only if CoreFoundation is here.
  static func isRunLoop(_ object: AnyObject) -> Bool {
    clinux_cf_lock()
    defer { clinux_cf_unlock() }
    // With the first run loop of any thread comes the main thread's.
    guard let loop = clinux_cf_main_run_loop() else { return false }
    // Only an object of CoreFoundation's own class may be asked for its type.
    let known = Unmanaged<AnyObject>.fromOpaque(loop).takeUnretainedValue()
    return type(of: object) == type(of: known)
      && clinux_cf_is_run_loop(Unmanaged.passUnretained(object).toOpaque())
  }

  /// Whether a run loop is the calling thread's.
  static func isOwn(_ loop: UnsafeMutableRawPointer) -> Bool {
    clinux_cf_lock()
    defer { clinux_cf_unlock() }
    return clinux_cf_is_own_run_loop(loop)
  }

  /// Begins to stamp the main thread's run loop, on any thread; nil if there is no memory.
  ///
  /// The result ends it.
  static func attach(_ stamper: TurnStamper, toMain loop: UnsafeMutableRawPointer) -> Attachment? {
    attach(stamper, to: loop, of: getpid())
  }

  /// Begins to stamp the calling thread's run loop; nil in a service without Foundation.
  static func attachToCurrent(_ stamper: TurnStamper) -> Attachment? {
    guard clinux_cf_is_here(), let loop = clinux_cf_current_run_loop(),
      let attachment = attach(stamper, to: loop, of: clinux_gettid())
    else { return nil }
    // Within a run whose beginning the observers have not seen.
    if clinux_cf_is_running(loop) { stamper.entry(.foundation) }
    return attachment
  }

  /// Calls `body` once on a run loop's thread, in its next turn, for which it is woken.
  ///
  /// `expected` is released afterwards, or with the run loop. False if there is no memory.
  static func perform(
    on loop: UnsafeMutableRawPointer, expecting expected: ExpectedThread, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    let call = Unmanaged.passRetained(Call(expected: expected, body: body))
    let isTaken = clinux_cf_perform(
      loop, { _, info in if let info { Unmanaged<Call>.fromOpaque(info).takeUnretainedValue().body() } },
      call.toOpaque()
    ) { info in
      if let info { Unmanaged<Call>.fromOpaque(info).release() }
    }
    if !isTaken { call.release() }
    return isTaken
  }

  private final class Call: Sendable {
    let expected: ExpectedThread
    let body: @Sendable () -> Void

    init(expected: ExpectedThread, body: @escaping @Sendable () -> Void) {
      self.expected = expected
      self.body = body
    }
  }

  /// Begins to stamp a `CFRunLoop`.
  private static func attach(
    _ stamper: TurnStamper, to loop: UnsafeMutableRawPointer, of thread: Int32
  ) -> Attachment? {
    let first = observe(
      loop, of: thread, [CLINUX_TURN_ENTRY, CLINUX_TURN_BEFORE_SOURCES, CLINUX_TURN_AFTER_WAITING], order: .min,
      stamper,
      clinux_cf_turn_begins)
    let last = observe(
      loop, of: thread, [CLINUX_TURN_BEFORE_WAITING, CLINUX_TURN_EXIT], order: .max, stamper, clinux_cf_turn_ends)
    let attachment = Attachment(observers: [first, last].compactMap(\.self))
    guard attachment.observers.count == 2 else {
      attachment.end()
      return nil
    }
    return attachment
  }

  private static func observe(
    _ loop: UnsafeMutableRawPointer, of thread: Int32, _ activities: [Int], order: Int, _ stamper: TurnStamper,
    _ callout: @escaping clinux_cf_observer_callout
  ) -> UnsafeMutableRawPointer? {
    let stamp = stamper.makeStamp(.foundation, owner: thread)
    let observer = clinux_cf_observe(loop, activities.reduce(0) { $0 | UInt($1) }, order, callout, stamp) { info in
      if let info { FoundationPulseObserver.release(info.assumingMemoryBound(to: clinux_turn_stamp.self)) }
    }
    if observer == nil { release(stamp) }
    return observer
  }

  /// Frees the stamp, on the loop's own thread alone.
  ///
  /// CoreFoundation calls the observer without a lock, so on any other thread the loop may be in the callout. Then some 200 bytes stay for good.
  private static func release(_ stamp: UnsafePointer<clinux_turn_stamp>) {
    if stamp.pointee.owner == clinux_gettid() { TurnStamper.release(stamp) }
  }

  /// A run loop that is being stamped.
  struct Attachment: @unchecked Sendable {  // CoreFoundation's objects may be used on any thread.
    fileprivate let observers: [UnsafeMutableRawPointer]

    /// Ends the stamping.
    ///
    /// From any thread.
    func end() { for observer in observers { clinux_cf_stop_observing(observer) } }
  }
}
