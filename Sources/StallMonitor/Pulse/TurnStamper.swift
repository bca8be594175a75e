import CLinux
import StallDetection
import Synchronization

/// Turns what the observers of a thread's run loops see into transitions of one pulse.
///
/// One for a thread, also if run loops of several kinds run on it inside of one another. On the
/// loop's thread only, unless said otherwise; takes no lock.
final class TurnStamper: @unchecked Sendable {  // `depth` belongs to the loop's thread; the rest is atomic or constant.
  /// A kind of run loop.
  enum Kind: UInt8, CaseIterable, Sendable {
    /// `LoopEngine.Loop`.
    case loop
    /// Foundation's `RunLoop`, CoreFoundation's `CFRunLoop`.
    case foundation
    /// The main dispatch queue without a run loop, which a heartbeat watches.
    case mainQueue
  }

  private let pulse: Pulse
  private var depth = 0
  private let latest: Atomic<UInt8>
  private let foundationRuns = Atomic<Int>(0)
  private let unseenTurn = Atomic<UInt64>(0)

  init(pulse: Pulse, kind: Kind = .loop) {
    self.pulse = pulse
    latest = Atomic(kind.rawValue)
  }

  /// The kind of the innermost run, or of the last one; from any thread.
  var kind: Kind { Kind(rawValue: latest.load(ordering: .relaxed)) ?? .loop }

  /// How many runs of Foundation's loop are known to be in progress; from any thread.
  var knownFoundationRuns: Int {
    let isInUnseenTurn = pulse.word.raw != 0 && pulse.word.raw == unseenTurn.load(ordering: .sequentiallyConsistent)
    return isInUnseenTurn ? 1 : foundationRuns.load(ordering: .relaxed)
  }

  /// The thread's run loops have given way to something that is not stamped; from any thread.
  func goOver(to kind: Kind) { latest.store(kind.rawValue, ordering: .relaxed) }

  /// A run begins.
  func entry(_ kind: Kind) {
    depth += 1
    latest.store(kind.rawValue, ordering: .relaxed)
    if kind == .foundation { foundationRuns.store(foundationRuns.load(ordering: .relaxed) + 1, ordering: .relaxed) }
    pulse.turn(.beforeSources)
  }

  /// A run was found in a turn whose beginning nothing has stamped; from any thread.
  ///
  /// The turn counts from now, as a heartbeat's does from the beat. Nil if the loop has stamped a transition.
  func beginUnseenTurn(_ kind: Kind) -> TurnWord? {
    let word = TurnWord(phase: .heartbeat, stamp: pulse.stampNow())
    unseenTurn.store(word.raw, ordering: .sequentiallyConsistent)
    guard pulse.replace(TurnWord(raw: 0), by: word) else { return nil }
    latest.store(kind.rawValue, ordering: .relaxed)
    return word
  }

  /// Whether this turn, whose beginning was not seen, is the current one; from any thread.
  func isUnseen(_ turn: TurnWord) -> Bool { pulse.word == turn }

  /// Ends the turn that was not seen to begin, unless the loop has; from any thread.
  func endUnseenTurn(_ turn: TurnWord) {
    _ = pulse.replace(turn, by: TurnWord(phase: .idle, stamp: turn.stamp))
  }

  /// What the callouts of a run loop of this kind stamp by.
  ///
  /// It holds a reference to this object, which keeps the pulse that it points into; end it by ``release(_:)``.
  func makeStamp(_ kind: Kind, owner: Int32) -> UnsafeMutablePointer<clinux_turn_stamp> {
    let stamp = UnsafeMutablePointer<clinux_turn_stamp>.allocate(capacity: 1)
    stamp.initialize(to: pulse.turnStamp())
    stamp.pointee.context = Unmanaged.passRetained(self).toOpaque()
    stamp.pointee.owner = owner
    stamp.pointee.answer = { TurnStamper.of($0).pulse.answer() }
    switch kind {
    case .foundation:
      stamp.pointee.runs = withUnsafePointer(to: foundationRuns) {
        UnsafeRawPointer($0).assumingMemoryBound(to: Int.self)
      }
      stamp.pointee.entry = { TurnStamper.of($0).entry(.foundation) }
      stamp.pointee.exit = { TurnStamper.of($0).exit(.foundation) }
    case .loop, .mainQueue:
      stamp.pointee.entry = { TurnStamper.of($0).entry(.loop) }
      stamp.pointee.exit = { TurnStamper.of($0).exit(.loop) }
    }
    return stamp
  }

  /// Frees a stamp whose callouts are called no more.
  static func release(_ stamp: UnsafePointer<clinux_turn_stamp>) {
    Unmanaged<TurnStamper>.fromOpaque(stamp.pointee.context).release()
    stamp.deallocate()
  }

  private static func of(_ context: UnsafeMutableRawPointer?) -> TurnStamper {
    Unmanaged<TurnStamper>.fromOpaque(context!).takeUnretainedValue()
  }

  /// A run ends.
  ///
  /// After a nested one, the outer callout continues, as a turn of its own.
  func exit(_ kind: Kind) {
    // Stamping may have begun in the middle of a run.
    depth = max(0, depth - 1)
    if kind == .foundation {
      foundationRuns.store(max(0, foundationRuns.load(ordering: .relaxed) - 1), ordering: .relaxed)
    }
    if depth > 0 { pulse.turn(.afterWaiting) } else { pulse.idle() }
  }
}
