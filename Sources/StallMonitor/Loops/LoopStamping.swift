import CLinux
import TurnSource

/// Stamps the turns and callouts of a loop, as long as it is wanted.
///
/// In every mode: a nested run in a private mode is a healthy run and not a stall.
struct LoopStamping: @unchecked Sendable {  // The stamp is freed once, after its last use.
  private let loop: any TurnSource
  private let stamp: UnsafeMutablePointer<clinux_turn_stamp>

  /// Begins the stamping.
  init(of loop: any TurnSource, by stamper: TurnStamper) {
    self.loop = loop
    stamp = stamper.makeStamp(.loop, owner: 0)
    loop.add(TurnStamp(stamp))
  }

  /// Ends the stamping; at once on the loop's thread, and soon from any other.
  func end() { loop.remove(TurnStamp(stamp)) { TurnStamper.release(self.stamp) } }
}
