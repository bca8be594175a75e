import LoopEngine

/// Stamps the transitions of a `Loop`.
///
/// It sees every mode, so that a nested run in a private mode is a healthy run and not a stall. First in order where a
/// turn begins and last where it ends, so that other observers' work counts as the loop's.
enum LoopPulseObserver {
  /// Begins to stamp a loop's transitions.
  ///
  /// The result ends it.
  static func attach(_ stamper: TurnStamper, to loop: Loop) -> Attachment {
    let context = Unmanaged.passRetained(stamper)
    let first = loop.addObserverToEveryMode(
      [.entry, .beforeSources, .afterWaiting], order: .min, context: context.toOpaque()
    ) { context, activity in
      Unmanaged<TurnStamper>.fromOpaque(context)._withUnsafeGuaranteedRef { stamper in
        switch activity {
        case Loop.Activity.afterWaiting.rawValue: stamper.afterWaiting()
        case Loop.Activity.beforeSources.rawValue: stamper.beforeSources()
        default: stamper.entry(.loop)
        }
      }
    }
    let last = loop.addObserverToEveryMode(
      [.beforeWaiting, .exit], order: .max, context: context.toOpaque()
    ) { context, activity in
      Unmanaged<TurnStamper>.fromOpaque(context)._withUnsafeGuaranteedRef { stamper in
        if activity == Loop.Activity.exit.rawValue { stamper.exit(.loop) } else { stamper.beforeWaiting() }
      }
    }
    return Attachment(loop: loop, hooks: [first, last], context: context)
  }

  /// A loop that is being stamped.
  struct Attachment: @unchecked Sendable {  // The context is released once, on the loop's thread, after its last use.
    fileprivate let loop: Loop
    fileprivate let hooks: [EveryModeHook]
    fileprivate let context: Unmanaged<TurnStamper>

    /// Ends the stamping; at once on the loop's thread, and soon from any other.
    func end() {
      loop.removeObserverFromEveryMode(hooks[0])
      loop.removeObserverFromEveryMode(hooks[1]) { self.context.release() }
    }
  }
}
