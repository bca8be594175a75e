import CLinux
import Synchronization

/// What a loop shows to threads that must never wait for it.
///
/// The loop's thread is the only writer and uses plain stores (no locked instruction on x86_64 or arm64); a reader
/// takes no lock and sees either a consistent callout or, after many tries, none. All pointers lead to memory that is
/// never freed.
final class PublishedState: @unchecked Sendable {  // `turnStamps` belongs to the loop's thread; the rest is atomic.
  /// What the writer keeps of an outer callout while an inner one runs.
  struct Saved {
    var kindAndLine: UInt
    var file: UInt
    var name: UInt
  }

  private let sequence = Atomic<UInt>(0)
  private let kindAndLine = Atomic<UInt>(0)
  private let file = Atomic<UInt>(0)
  private let name = Atomic<UInt>(0)
  private let mode = Atomic<UInt>(0)
  private let waiting = Atomic<Bool>(false)
  private let ended = Atomic<Bool>(false)
  private let tid = Atomic<Int32>(0)
  private let stack = Atomic<UInt64>(0)
  /// The thread control block of the owner; 0 when nobody owns the loop (yet, or any more).
  let owner = Atomic<UInt>(0)
  /// The observer of each turn and each callout; nil if the loop is not watched.
  ///
  /// The owner's alone.
  @exclusivity(unchecked) private(set) var turnStamps: UnsafeMutablePointer<clinux_turn_stamp>?
  /// The owner of a loop that has ended.
  private let formerOwner = Atomic<UInt>(0)

  // MARK: The owner's side

  @inline(__always)
  func publish(_ kind: Loop.Callout.Kind.Value, _ callSite: CallSite) {
    if turnStamps != nil { stampCallout() }
    write(
      Saved(
        kindAndLine: UInt(kind.rawValue) | UInt(callSite.line) << 8, file: UInt(bitPattern: callSite.file),
        name: UInt(bitPattern: callSite.name)))
  }

  // MARK: Stamps, out of line: a loop that nobody watches pays for a load and a branch

  @inline(never)
  private func stampCallout() { clinux_callout_begins(turnStamps) }

  @inline(never)
  func stampBeforeSources() { clinux_turn_before_sources(turnStamps) }

  @inline(never)
  func stampBeforeWaiting() { clinux_turn_before_wait(turnStamps) }

  /// `now` is a reading of the loop's own clock since the wait, or 0.
  @inline(never)
  func stampAfterWaiting(_ now: Int64) { clinux_turn_after_wait(turnStamps, now) }

  // MARK: Callouts

  /// The callout that is shown now, to be given to ``restore(_:)``.
  @inline(__always)
  func save() -> Saved {
    Saved(
      kindAndLine: kindAndLine.load(ordering: .relaxed), file: file.load(ordering: .relaxed),
      name: name.load(ordering: .relaxed))
  }

  @inline(__always)
  func restore(_ saved: Saved) {
    write(saved)
  }

  /// The innermost run is in no callout.
  @inline(__always)
  func clear() {
    write(Saved(kindAndLine: 0, file: 0, name: 0))
  }

  @inline(__always)
  private func write(_ value: Saved) {
    let before = sequence.load(ordering: .relaxed)
    sequence.store(before &+ 1, ordering: .relaxed)
    // Releasing stores keep the odd number ahead of the words; they are plain moves on x86_64.
    kindAndLine.store(value.kindAndLine, ordering: .releasing)
    file.store(value.file, ordering: .releasing)
    name.store(value.name, ordering: .releasing)
    sequence.store(before &+ 2, ordering: .releasing)
  }

  @inline(__always)
  func setMode(_ text: ImmortalText?) {
    mode.store(UInt(bitPattern: text?.start), ordering: .releasing)
  }

  @inline(__always)
  func setWaiting(_ value: Bool) {
    waiting.store(value, ordering: .relaxed)
  }

  /// Adds a stamp, which learns of the runs in progress and of their innermost callout.
  func add(_ stamp: UnsafeMutablePointer<clinux_turn_stamp>, runs: Int) {
    for _ in 0..<runs { stamp.pointee.entry(stamp.pointee.context) }
    // Otherwise the next callout would count from the beginning of the turn.
    if kindAndLine.load(ordering: .relaxed) != 0 { clinux_callout_begins(stamp) }
    stamp.pointee.next = turnStamps
    turnStamps = stamp
  }

  func remove(_ stamp: UnsafeMutablePointer<clinux_turn_stamp>) {
    if turnStamps == stamp { return turnStamps = stamp.pointee.next }
    var earlier = turnStamps
    while let one = earlier, one.pointee.next != stamp { earlier = one.pointee.next }
    earlier?.pointee.next = stamp.pointee.next
  }

  func bindToThisThread() {
    tid.store(clinux_gettid(), ordering: .relaxed)
    // The main thread's would be read from a file.
    if !LoopThread.isMain { stack.store(UInt64(clinux_own_stack_end()), ordering: .relaxed) }
    owner.store(UInt(clinux_thread_pointer()), ordering: .releasing)
  }

  func presetThreadID(_ value: Int32) {
    tid.store(value, ordering: .relaxed)
  }

  func markEnded() {
    turnStamps = nil
    formerOwner.store(owner.load(ordering: .relaxed), ordering: .relaxed)
    owner.store(0, ordering: .relaxed)
    setMode(nil)
    clear()
    waiting.store(false, ordering: .relaxed)
    ended.store(true, ordering: .releasing)
  }

  // MARK: Any thread

  var threadID: Int32 { tid.load(ordering: .relaxed) }
  var stackEnd: UInt64 { stack.load(ordering: .relaxed) }
  var isWaiting: Bool { waiting.load(ordering: .relaxed) }
  var hasEnded: Bool { ended.load(ordering: .acquiring) }
  /// Whether the loop ends, or has ended, with the calling thread.
  ///
  /// Both the thread control block and the number, as each alone comes back with a later thread.
  var hasEndedHere: Bool {
    hasEnded && formerOwner.load(ordering: .relaxed) == UInt(clinux_thread_pointer()) && threadID == clinux_gettid()
  }
  var modeText: ImmortalText? { ImmortalText(bitPattern: mode.load(ordering: .acquiring)) }

  var callout: Loop.Callout? {
    // The writer holds the odd number for a few instructions unless it is preempted there; then no answer is better
    // than a wait.
    for _ in 0..<1000 {
      let before = sequence.load(ordering: .acquiring)
      if before & 1 == 1 { continue }
      let kindAndLine = kindAndLine.load(ordering: .acquiring)
      let file = file.load(ordering: .acquiring)
      let name = name.load(ordering: .acquiring)
      if sequence.load(ordering: .relaxed) != before { continue }
      guard let kind = Loop.Callout.Kind.Value(rawValue: UInt8(truncatingIfNeeded: kindAndLine)) else { return nil }
      return Loop.Callout(
        kind: Loop.Callout.Kind(value: kind), line: UInt32(truncatingIfNeeded: kindAndLine >> 8),
        file: ImmortalText(bitPattern: file),
        nameText: ImmortalText(bitPattern: name))
    }
    return nil
  }
}
