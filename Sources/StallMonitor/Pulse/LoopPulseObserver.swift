import LoopEngine

/// Stamps a loop's transitions into its pulse.
///
/// It sees every mode, so that a nested run in a private mode is a healthy run and not a stall. First in order where a
/// turn begins and last where it ends, so that other observers' work counts as the loop's.
final class LoopPulseObserver {
  private let pulse: Pulse
  // On the loop's thread only.
  private var depth = 0

  private init(pulse: Pulse) { self.pulse = pulse }

  /// Entry, BeforeSources and AfterWaiting: a turn begins.
  @inline(__always)
  private func begins(_ activity: UInt) {
    if activity == Loop.Activity.entry.rawValue { depth += 1 }
    pulse.turn(activity == Loop.Activity.afterWaiting.rawValue ? .afterWaiting : .beforeSources)
  }

  /// BeforeWaiting and Exit: a turn ends.
  ///
  /// After a nested run the outer callout goes on, as a turn of its own.
  @inline(__always)
  private func ends(_ activity: UInt) {
    guard activity == Loop.Activity.exit.rawValue else { return pulse.idle() }
    depth -= 1
    if depth > 0 { pulse.turn(.afterWaiting) } else { pulse.idle() }
  }

  // MARK: Attaching

  /// Begins to stamp a loop's transitions.
  ///
  /// The result ends it.
  static func attach(_ pulse: Pulse, to loop: Loop) -> Attachment {
    let context = Unmanaged.passRetained(LoopPulseObserver(pulse: pulse))
    let first = loop.addObserverToEveryMode(
      [.entry, .beforeSources, .afterWaiting], order: .min, context: context.toOpaque()
    ) { context, activity in
      Unmanaged<LoopPulseObserver>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.begins(activity) }
    }
    let last = loop.addObserverToEveryMode(
      [.beforeWaiting, .exit], order: .max, context: context.toOpaque()
    ) { context, activity in
      Unmanaged<LoopPulseObserver>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.ends(activity) }
    }
    return Attachment(loop: loop, hooks: [first, last], context: context)
  }

  /// A loop that is being stamped.
  struct Attachment: @unchecked Sendable {  // The context is released once, on the loop's thread, after its last use.
    fileprivate let loop: Loop
    fileprivate let hooks: [EveryModeHook]
    fileprivate let context: Unmanaged<LoopPulseObserver>

    /// Ends the stamping; at once on the loop's thread, and soon from any other.
    func end() {
      loop.removeObserverFromEveryMode(hooks[0])
      loop.removeObserverFromEveryMode(hooks[1]) { self.context.release() }
    }
  }
}
