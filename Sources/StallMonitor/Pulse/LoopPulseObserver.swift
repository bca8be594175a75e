import CLinux
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
    let stamp = stamper.makeStamp(.loop, owner: 0)
    let first = loop.addObserverToEveryMode(
      [.entry, .beforeSources, .afterWaiting], order: .min, context: stamp
    ) { clinux_turn_begins($0, $1) }
    let last = loop.addObserverToEveryMode(
      [.beforeWaiting, .exit], order: .max, context: stamp
    ) { clinux_turn_ends($0, $1) }
    return Attachment(loop: loop, hooks: [first, last], stamp: stamp)
  }

  /// A loop that is being stamped.
  struct Attachment: @unchecked Sendable {  // The stamp is freed once, on the loop's thread, after its last use.
    fileprivate let loop: Loop
    fileprivate let hooks: [EveryModeHook]
    fileprivate let stamp: UnsafePointer<clinux_turn_stamp>

    /// Ends the stamping; at once on the loop's thread, and soon from any other.
    func end() {
      loop.removeObserverFromEveryMode(hooks[0])
      loop.removeObserverFromEveryMode(hooks[1]) { TurnStamper.release(self.stamp) }
    }
  }
}
