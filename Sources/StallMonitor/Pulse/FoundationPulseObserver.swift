import CLinux

/// Stamps the transitions of Foundation's run loop, if the host has Foundation.
///
/// CoreFoundation's observers work on Linux; they see the common modes. First in order where a turn begins and last where it
/// ends, so that other observers' work counts as the loop's.
enum FoundationPulseObserver {
  // CFRunLoopActivity (CFRunLoop.h).
  private static let entry: UInt = 1
  private static let beforeSources: UInt = 4
  private static let beforeWaiting: UInt = 32
  private static let afterWaiting: UInt = 64
  private static let exit: UInt = 128

  /// Begins to stamp the main thread's run loop; nil in a host without Foundation.
  ///
  /// The result ends it.
  static func attachToMain(_ stamper: TurnStamper) -> Attachment? {
    guard clinux_cf_is_here(), let loop = clinux_cf_main_run_loop() else { return nil }
    return attach(stamper, to: loop)
  }

  /// Begins to stamp the calling thread's run loop; nil in a host without Foundation.
  static func attachToCurrent(_ stamper: TurnStamper) -> Attachment? {
    guard clinux_cf_is_here(), let loop = clinux_cf_current_run_loop(), let attachment = attach(stamper, to: loop)
    else { return nil }
    // Within a run, of which the observers have not seen the beginning.
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
  private static func attach(_ stamper: TurnStamper, to loop: UnsafeMutableRawPointer) -> Attachment? {
    let first = observe(loop, entry | beforeSources | afterWaiting, order: .min, stamper) { _, activity, info in
      guard let info else { return }
      Unmanaged<TurnStamper>.fromOpaque(info)._withUnsafeGuaranteedRef { stamper in
        switch activity {
        case FoundationPulseObserver.afterWaiting: stamper.afterWaiting()
        case FoundationPulseObserver.beforeSources: stamper.beforeSources()
        default: stamper.entry(.foundation)
        }
      }
    }
    let last = observe(loop, beforeWaiting | exit, order: .max, stamper) { _, activity, info in
      guard let info else { return }
      Unmanaged<TurnStamper>.fromOpaque(info)._withUnsafeGuaranteedRef { stamper in
        if activity == FoundationPulseObserver.exit { stamper.exit(.foundation) } else { stamper.beforeWaiting() }
      }
    }
    let attachment = Attachment(observers: [first, last].compactMap(\.self))
    guard attachment.observers.count == 2 else {
      attachment.end()
      return nil
    }
    return attachment
  }

  private static func observe(
    _ loop: UnsafeMutableRawPointer, _ activities: UInt, order: Int, _ stamper: TurnStamper,
    _ callout: @escaping clinux_cf_observer_callout
  ) -> UnsafeMutableRawPointer? {
    clinux_cf_observe(loop, activities, order, callout, Unmanaged.passRetained(stamper).toOpaque()) { info in
      if let info { Unmanaged<TurnStamper>.fromOpaque(info).release() }
    }
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
