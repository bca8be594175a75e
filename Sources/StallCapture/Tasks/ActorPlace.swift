import CLinux

/// Where a thread has the actor that it runs for, and how the actor's type is found.
///
/// While a thread runs jobs, a thread-local variable of the runtime points to a record on the
/// thread's stack, which has the current executor: two words. The first is the actor, and the
/// second is 0 if the actor has no executor of its own.
struct ActorPlace: Sendable, Equatable {
  /// The distance of the variable from the thread pointer.
  let variable: Int64
  /// Where the record has the executor.
  let executor: UInt64

  /// How much of a record is searched.
  private static let recordSize: UInt64 = 64
  /// How far the variable is from that of the current task at most: the runtime declares both in one file.
  private static let distance: Int64 = 128

  /// Finds it with jobs of an executor of its own, which run on the calling thread; nil if not exactly one place is left.
  ///
  /// The calling thread is prepared to read memory.
  static func find(near task: CurrentTaskWord, in process: ProcessHandle) -> ActorPlace? {
    let base = UInt64(clinux_thread_pointer())
    let executor = UInt64(UInt(bitPattern: Unmanaged.passUnretained(ProbeExecutor.shared).toOpaque()))
    guard
      TypeName.isKnown(
        of: UInt64(UInt(bitPattern: Unmanaged.passUnretained(ProbeActor.shared).toOpaque())), in: process)
    else {
      return nil
    }
    let offsets = stride(from: task.offset - distance, through: task.offset + distance, by: 8)
    let search = Search(
      offsets.flatMap { offset in
        stride(from: UInt64(0), to: recordSize, by: 8).map { ActorPlace(variable: offset, executor: $0) }
      })
    for _ in 0..<2 {
      search.runs = 0
      ProbeExecutor.run { search.keep { $0.word(base: base, in: process) == executor } }
      if search.runs != 1 { return nil }
      // The job is over.
      search.candidates.removeAll { $0.word(base: base, in: process) == executor }
    }
    return search.candidates.count == 1 ? search.candidates[0] : nil
  }

  /// The name of the type of the actor that a thread runs for, or nil if it runs for none without an executor of its own.
  ///
  /// The thread may continue at any moment: all of it is read through the kernel, and counts only
  /// if it is the same afterwards.
  func actorType(threadPointer: UInt64, in process: ProcessHandle) -> String? {
    guard let actor = actor(threadPointer: threadPointer, in: process),
      let name = TypeName.of(object: actor, in: process),
      self.actor(threadPointer: threadPointer, in: process) == actor
    else { return nil }
    return name
  }

  private func actor(threadPointer: UInt64, in process: ProcessHandle) -> UInt64? {
    guard let record = process.load(threadPointer &+ UInt64(bitPattern: variable), as: UInt64.self), record != 0,
      let (actor, witness) = process.load(record &+ executor, as: (UInt64, UInt64).self), actor != 0, witness == 0
    else { return nil }
    return actor
  }

  /// The first word of the executor; nil if there is no record.
  private func word(base: UInt64, in process: ProcessHandle) -> UInt64? {
    process.load(base &+ UInt64(bitPattern: variable), as: UInt64.self)
      .flatMap { process.load($0 &+ executor, as: UInt64.self) }
  }

  /// The places that have had the executor in each job so far, and only then; used on one thread.
  private final class Search: @unchecked Sendable {
    var candidates: [ActorPlace]
    var runs = 0

    init(_ candidates: [ActorPlace]) { self.candidates = candidates }

    func keep(where isWanted: (ActorPlace) -> Bool) {
      runs += 1
      candidates.removeAll { !isWanted($0) }
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
