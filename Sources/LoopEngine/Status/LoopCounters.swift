import CLinux
import Synchronization

/// The numbers behind ``Loop/Statistics``: written by the loop's thread with plain stores, read by any.
///
/// Times are in ticks of a cheap clock and become nanoseconds when they are read.
final class LoopCounters: @unchecked Sendable {
  // @unchecked: `waitBegan`, `workBegan` and `isSaturated` belong to the loop's thread, the rest is atomic or constant.
  let turns = Atomic<UInt>(0)
  let workTime = Atomic<Int64>(0)
  let waitTime = Atomic<Int64>(0)
  let longestTurn = Atomic<Int64>(0)
  let deepestQueue = Atomic<Int>(0)
  let histogram = DurationHistogram()
  /// A moment on both clocks, from which the length of a tick follows.
  private let firstTick = clinux_ticks()
  private let firstTime = clinux_monotonic()
  @exclusivity(unchecked) private var waitBegan: Int64 = 0
  /// When the current turn began, by the loop's own clock; 0 before the first.
  @exclusivity(unchecked) private(set) var workBegan: Int64 = 0
  /// Whether the event that the loop last waited for had already happened.
  ///
  /// Under load, the next one will have, too.
  @exclusivity(unchecked) private(set) var isSaturated = false
  /// When the current turn began, if it is another one than that of an earlier reading; otherwise
  /// 0.
  @inline(__always)
  func workBegan(since earlier: Int64) -> Int64 { workBegan == earlier ? 0 : workBegan }

  /// A few microseconds: too short for the thread to have been put to sleep and woken again.
  private static var noTime: Int64 { 4096 }

  /// A run begins outside of any other: what the thread did before is no turn.
  @inline(__always)
  func outermostRunBegins() {
    workBegan = 0
  }

  /// The loop is about to sleep: a turn ends.
  @inline(__always)
  func waitBegins() {
    let now = clinux_ticks()
    waitBegan = now
    if workBegan != 0 { turnEnds(now) }
  }

  /// The outermost run ends, and with it the turn that its last wait began.
  @inline(__always)
  func outermostRunEnds() {
    if workBegan != 0 { turnEnds(clinux_ticks()) }
    workBegan = 0
  }

  @inline(__always)
  private func turnEnds(_ now: Int64) {
    let length = max(0, now &- workBegan)
    turns.store(turns.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    workTime.store(workTime.load(ordering: .relaxed) &+ length, ordering: .relaxed)
    if length > longestTurn.load(ordering: .relaxed) { longestTurn.store(length, ordering: .relaxed) }
    histogram.add(length)
  }

  /// The loop has woken: the next turn begins.
  @inline(__always)
  func waitEnded(andFound isFound: Bool) {
    let now = clinux_ticks()
    workBegan = now
    let length = max(0, now &- waitBegan)
    isSaturated = isFound && length < Self.noTime
    waitTime.store(waitTime.load(ordering: .relaxed) &+ length, ordering: .relaxed)
  }

  /// A turn has ended and the next one begins, as there was no need to wait; or there was, after all.
  @inline(__always)
  func looked(andFound isFound: Bool) {
    isSaturated = isFound
    if !isFound { return }
    let now = clinux_ticks()
    if workBegan != 0 { turnEnds(now) }
    workBegan = now
  }

  /// How many nanoseconds a tick is; exact to a millionth once the loop is some milliseconds old.
  var nanosecondsPerTick: Double {
    let ticks = clinux_ticks() &- firstTick
    let time = clinux_monotonic() &- firstTime
    return ticks > 0 && time > 0 ? Double(time) / Double(ticks) : 1
  }

  @inline(__always)
  func sawQueue(of depth: Int) {
    if depth > deepestQueue.load(ordering: .relaxed) { deepestQueue.store(depth, ordering: .relaxed) }
  }
}
