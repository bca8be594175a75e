import CLinux
import CUnwind
import Synchronization

/// Where a thread has the actor that it runs for, and how the actor's type is found.
///
/// While a thread runs jobs, a thread-local variable of the runtime points to a record on the thread's stack, which has the executor that is
/// current: two words, of which the first is the actor and the second 0 if the actor has no executor of its own.
struct ActorPlace: Sendable, Equatable {
  /// The distance of the variable from the thread pointer.
  let variable: Int64
  /// Where the record has the executor.
  let executor: UInt64

  /// How much of a record is searched.
  private static let recordSize: UInt64 = 64

  /// Finds it with jobs of an executor of its own, which run on the calling thread; nil if not exactly one place is left.
  ///
  /// The calling thread is prepared to read memory.
  static func find() -> ActorPlace? {
    let base = UInt64(clinux_thread_pointer())
    let executor = UInt64(UInt(bitPattern: Unmanaged.passUnretained(ProbeExecutor.shared).toOpaque()))
    guard TypeName.isKnown(of: UInt64(UInt(bitPattern: Unmanaged.passUnretained(ProbeActor.shared).toOpaque()))) else {
      return nil
    }
    let stackEnd = UInt64(clinux_own_stack_end())
    let search = Search()
    // Copies of the record's address on the stack do not move with the stack pointer. Larger memory would not be on the stack.
    for depth in [0, 528, 272, 912] {
      search.runs = 0
      withUnsafeTemporaryAllocation(byteCount: depth + 16, alignment: 16) { padding in
        // Not to be optimized away.
        search.padding = padding.baseAddress
        ProbeExecutor.run { search.keep(base: base, executor: executor, stackEnd: stackEnd) }
      }
      if search.runs != 1 { return nil }
      search.dropThoseLeft(base: base)
    }
    return search.candidates.count == 1 ? search.candidates[0] : nil
  }

  /// The name of the type of the actor that a thread runs for, or nil if it runs for none without an executor of its own.
  ///
  /// The thread may go on at any moment: all of it is read through the kernel, and counts only if it is the same afterwards.
  func actorType(threadPointer: UInt64) -> String? {
    guard let actor = actor(threadPointer: threadPointer), let name = TypeName.of(object: actor),
      self.actor(threadPointer: threadPointer) == actor
    else { return nil }
    return name
  }

  private func actor(threadPointer: UInt64) -> UInt64? {
    let process = OwnProcess()
    guard let record = process.load(threadPointer &+ UInt64(bitPattern: variable), as: UInt64.self), record != 0,
      let (actor, witness) = process.load(record &+ executor, as: (UInt64, UInt64).self), actor != 0, witness == 0
    else { return nil }
    return actor
  }

  /// The places that have had the executor in each job so far, and only then; used on one thread.
  private final class Search: @unchecked Sendable {
    private(set) var candidates: [ActorPlace] = []
    var runs = 0
    var padding: UnsafeMutableRawPointer?
    /// Where the record of the latest job was, of each candidate.
    private var records: [UInt64] = []
    private var isFirst = true
    /// How much of the stack is searched, from its outermost frame.
    private static let reach: UInt64 = 1 << 20

    func keep(base: UInt64, executor: UInt64, stackEnd: UInt64) {
      runs += 1
      if isFirst { candidates = places(base: base, executor: executor, stackEnd: stackEnd) }
      isFirst = false
      candidates.removeAll { place in
        OwnProcess().load(Self.record(of: place, base) &+ place.executor, as: UInt64.self) != executor
      }
      records = candidates.map { Self.record(of: $0, base) }
    }

    /// The variable has another value after the job. A copy of that value on the stack stays.
    func dropThoseLeft(base: UInt64) {
      candidates = zip(candidates, records).filter { Self.record(of: $0, base) != $1 }.map(\.0)
    }

    private static func record(of place: ActorPlace, _ base: UInt64) -> UInt64 {
      OwnProcess().load(base &+ UInt64(bitPattern: place.variable), as: UInt64.self) ?? 0
    }

    /// Records on the thread's stack.
    private func places(base: UInt64, executor: UInt64, stackEnd: UInt64) -> [ActorPlace] {
      ThreadLocalWords.all(base) { $0 < stackEnd && stackEnd - $0 < Self.reach && $0 % 8 == 0 }.flatMap {
        offset, record in
        stride(from: UInt64(0), to: recordSize, by: 8)
          .filter { OwnProcess().load(record &+ $0, as: UInt64.self) == executor }
          .map { ActorPlace(variable: offset, executor: $0) }
      }
    }
  }
}

/// Runs jobs at once, on the thread that enqueues them.
private final class ProbeExecutor: SerialExecutor {
  static let shared = ProbeExecutor()

  func enqueue(_ job: consuming ExecutorJob) { job.runSynchronously(on: asUnownedSerialExecutor()) }

  /// Runs a job with this body.
  static func run(_ body: @escaping @Sendable () -> Void) { Task { @ProbeActor in body() } }
}

@globalActor
actor ProbeActor {
  static let shared = ProbeActor()

  nonisolated var unownedExecutor: UnownedSerialExecutor { ProbeExecutor.shared.asUnownedSerialExecutor() }
}
