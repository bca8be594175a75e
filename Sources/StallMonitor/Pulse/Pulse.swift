import CLinux
import CUnwind
import StallCapture
import StallDetection
import Synchronization

/// What a watched loop publishes for the watchdog: one word, stored at each transition.
///
/// The loop's thread is the only writer of the word. (For a heartbeat: the thread that queues it and the thread that runs it, in turn.
/// Before the loop's first transition another thread may write it: ``replace(_:by:)``. The turn of the whole task pool is ended by the
/// watchdog or by a thread of the pool: ``end(_:)``.) A transition costs a reading of the clock and a
/// store (an idle one the store alone); the semaphore is posted only when the watchdog has asked for it.
///
/// A turn that has lasted for longer than it may is noted by its own thread at its end, so that a watchdog that comes too late finds it.
///
/// The question "has the watchdog asked?" is a load after a store to another word, which processors
/// reorder. The watchdog has the fence (`membarrier`), so the loop pays only a
/// compiler barrier.
final class Pulse: Sendable {
  /// What the watchdog wants to be woken for.
  private enum Attention {
    /// Any transition: the watchdog is parked.
    static let parked: UInt32 = 1
    /// The end of this turn, with its time: a stall is being followed.
    static let episode: UInt32 = 2
  }

  /// Longer than any turn, in the unit of stamps.
  static let noLimit = UInt64(Int64.max)

  private let published = Atomic<UInt64>(0)
  private let attention = Atomic<UInt32>(0)
  private let recovered = Atomic<UInt64>(0)
  // What the loop has called in its turn, and the same of the last turn whose end the watchdog has asked for. Unsafe: C loads and stores
  // them word by word, atomically.
  private nonisolated(unsafe) let callouts = UnsafeMutablePointer<clinux_callouts>.allocate(capacity: 2)
  // The turns that were late. Unsafe, for the same reason.
  private nonisolated(unsafe) let late = UnsafeMutablePointer<clinux_late_turns>.allocate(capacity: 1)
  // What this object's own methods stamp by. Unsafe: never changed after `init`.
  private nonisolated(unsafe) let stamp = UnsafeMutablePointer<clinux_turn_stamp>.allocate(capacity: 1)
  private let semaphore: WakeSemaphore
  // Where membarrier is missing the loop pays for the fence.
  private let fencesItself: Bool
  private let countsTicks: Bool
  // By which the rate of the stamps is known roughly, until the watchdog knows it well.
  private let made = PulseClock.read()
  // The time at which a followed turn ends.
  private let now: @Sendable () -> Instant
  // Where the end of a followed turn is stored beside.
  private let marks: EndMarks?

  init(
    semaphore: WakeSemaphore, fencesItself: Bool, countsTicks: Bool = false, marks: EndMarks? = nil,
    now: @escaping @Sendable () -> Instant = { .now() }
  ) {
    self.now = now
    self.marks = marks
    self.semaphore = semaphore
    self.fencesItself = fencesItself
    self.countsTicks = countsTicks
    callouts.initialize(repeating: clinux_callouts(), count: 2)
    late.initialize(to: clinux_late_turns())
    late.pointee.limit = Self.noLimit
    stamp.initialize(to: turnStamp())
    stamp.pointee.context = Unmanaged.passUnretained(self).toOpaque()
    stamp.pointee.answer = { Unmanaged<Pulse>.fromOpaque($0!)._withUnsafeGuaranteedRef { $0.answer() } }
  }

  deinit {
    stamp.deallocate()
    late.deallocate()
    callouts.deallocate()
  }

  // MARK: The loop's side

  /// A turn begins, now.
  func turn(_ phase: TurnPhase) { turn(phase, stamp: stampNow()) }

  /// A turn has begun at the time of this stamp.
  func turn(_ phase: TurnPhase, stamp time: UInt64) { clinux_turn_begin(stamp, time, phase.rawValue) }

  /// A reading of the clock that turns are stamped with.
  func stampNow() -> UInt64 { clinux_turn_clock(stamp) }

  /// The turn has ended, and none follows yet.
  func idle() { clinux_turn_end(stamp) }

  /// Ends a turn, unless it has ended: of several threads, one does.
  func end(_ turn: TurnWord) {
    if turn.phase != .idle { clinux_turn_end_unseen(stamp, turn.raw) }
  }

  /// Where C stamps this pulse, without what it is to call.
  ///
  /// The words lie inside this object, whose lifetime the caller holds.
  func turnStamp() -> clinux_turn_stamp {
    var stamp = clinux_turn_stamp()
    stamp.word = withUnsafePointer(to: published) {
      UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: UInt64.self)
    }
    stamp.attention = withUnsafePointer(to: attention) { UnsafeRawPointer($0).assumingMemoryBound(to: UInt32.self) }
    stamp.callouts = callouts
    stamp.late = late
    stamp.counts_ticks = countsTicks
    stamp.fences_itself = fencesItself
    return stamp
  }

  /// Answers what the watchdog has asked for.
  @inline(never)
  func answer() { keepingErrno { answerAtOnce() } }

  private func answerAtOnce() {
    // Relaxed: the exchange below finds out whether it still holds.
    var asked = attention.load(ordering: .relaxed)
    if asked & Attention.episode != 0 { clinux_callouts_keep(callouts, callouts + 1) }
    var isAnswered = false
    // An episode that is asked for in between has its time, too.
    while !isAnswered {
      // Relaxed: the exchange after it publishes it, to a watchdog that finds the attention taken.
      if asked & Attention.episode != 0 { recovered.store(now().nanoseconds, ordering: .relaxed) }
      (isAnswered, asked) = attention.compareExchange(
        expected: asked, desired: 0, ordering: .sequentiallyConsistent)
    }
    // After the exchange: the watchdog makes a record and then checks the attention. So it finds the turn over, or these stores
    // find the record.
    if asked & Attention.episode != 0 {
      // Relaxed: this thread has stored both.
      let word = published.load(ordering: .relaxed)
      marks?.store(word, at: recovered.load(ordering: .relaxed))
    }
    // On a loop's own thread; a heartbeat's pulse may be answered on another one, which is not
    // noted.
    cunwind_note_thread()
    if asked != 0 { semaphore.post() }
  }

  // MARK: The watchdog's side

  /// Publishes a word in the loop's place, unless it has published another than `last`; whether that was done.
  func replace(_ last: TurnWord, by new: TurnWord) -> Bool {
    published.compareExchange(expected: last.raw, desired: new.raw, ordering: .sequentiallyConsistent).exchanged
  }

  /// The last published word.
  // Acquiring, for what the loop's thread stored before it: see `publish`.
  var word: TurnWord { TurnWord(raw: published.load(ordering: .acquiring)) }

  /// Asks for a post at the next transition.
  ///
  /// Call `fence` afterwards, and read the word again.
  func requestWake() { attention.bitwiseOr(Attention.parked, ordering: .sequentiallyConsistent) }

  /// Takes the request back.
  func cancelWake() { attention.bitwiseAnd(~Attention.parked, ordering: .sequentiallyConsistent) }

  /// Asks for the time at which the current turn ends.
  ///
  /// Call `fence` afterwards, and read the word again.
  func beginEpisode() { attention.bitwiseOr(Attention.episode, ordering: .sequentiallyConsistent) }

  /// Takes the request back.
  func cancelEpisode() { attention.bitwiseAnd(~Attention.episode, ordering: .sequentiallyConsistent) }

  /// When the turn of the episode ended, or nil while it lasts.
  var episodeEnd: Instant? {
    // Acquiring: the exchange that has taken the request comes after the store of the time.
    if attention.load(ordering: .acquiring) & Attention.episode != 0 { return nil }
    return Instant(recovered.load(ordering: .relaxed))
  }

  /// Has the loop note turns that last longer than so many units of its stamps; ``noLimit``: none.
  func noteTurns(longerThan limit: UInt64) { clinux_late_turns_set_limit(late, limit) }

  /// Has the loop note turns that last longer than so many nanoseconds, from now until the watchdog sets a limit that it knows better.
  ///
  /// It notes rather too many, as the rate of its stamps is not known well: the watchdog judges by their times.
  func noteTurns(lasting threshold: UInt64) {
    let now = PulseClock.read()
    // A reading may be wrong by some hundred nanoseconds.
    let error = min(0.5, 1000 / Double(max(now.time - made.time, 1)))
    let shortest = threshold - UInt64(Double(threshold) * error)
    noteTurns(
      longerThan: PulseClock.limit(for: shortest, by: TickScale(from: made, to: now), countsTicks: countsTicks))
  }

  /// How many turns the loop has noted, and how long these lasted.
  var lateTurns: (count: UInt64, total: UInt64) {
    var total: UInt64 = 0
    return (clinux_late_turns_count(late, &total), total)
  }

  /// The note with this number, from 0; nil if a later one has taken its place.
  func lateTurn(_ number: UInt64) -> clinux_late_turn? {
    var note = clinux_late_turn()
    return clinux_late_turn_read(late, number, &note) ? note : nil
  }

  /// What the loop has called in a turn so far, or until its end if that is known; nil if it has called nothing, or does not say.
  func callouts(of turn: TurnWord) -> clinux_callouts? {
    var copy = clinux_callouts()
    var kept = clinux_callouts()
    let isKnown = clinux_callouts_read(callouts, turn.stamp, &copy)
    // Second: the next turn may have begun to write its own numbers beside this turn's time, but this turn's were kept before that
    // (Tests/Models/callouts.pml).
    if clinux_callouts_read(callouts + 1, turn.stamp, &kept) { return kept }
    return isKnown ? copy : nil
  }

  /// Makes the requests of all pulses visible to their loops, or their transitions visible here.
  func fence() {
    if !fencesItself { clinux_barrier_on_all_threads() }
  }
}
