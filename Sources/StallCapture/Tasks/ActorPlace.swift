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
    let search = Search()
    // Copies of the record's address on the stack are excluded by records at other depths.
    for depth in [0, 1040, 2336, 528] {
      search.runs = 0
      withUnsafeTemporaryAllocation(byteCount: depth + 16, alignment: 16) { padding in
        let stack = UInt64(UInt(bitPattern: padding.baseAddress))
        ProbeExecutor.run { search.keep(base: base, executor: executor, stack: stack) }
      }
      if search.runs != 1 { return nil }
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

  /// The places that have had the executor in each job so far; used on one thread.
  private final class Search: @unchecked Sendable {
    var candidates: [ActorPlace] = []
    var runs = 0
    private var isFirst = true
    /// How far the job's record is below the function that has enqueued the job.
    private static let reach: UInt64 = 64 << 10

    func keep(base: UInt64, executor: UInt64, stack: UInt64) {
      runs += 1
      if isFirst {
        isFirst = false
        return candidates = places(base: base, executor: executor, stack: stack)
      }
      candidates = candidates.filter { place in
        OwnProcess().load(base &+ UInt64(bitPattern: place.variable), as: UInt64.self)
          .flatMap { OwnProcess().load($0 &+ place.executor, as: UInt64.self) } == executor
      }
    }

    /// Records on the stack below an address on it.
    private func places(base: UInt64, executor: UInt64, stack: UInt64) -> [ActorPlace] {
      ThreadLocalWords.all(base) { $0 < stack && stack - $0 < Self.reach && $0 % 8 == 0 }.flatMap { offset, record in
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
