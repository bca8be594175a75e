import Dispatch
import Foundation
import Synchronization
public import Testing

/// A suite that waits for its turn before its first test starts: see ``Testing/Trait/takingTurns``.
///
/// Time limits do not run while a suite waits. The tests of one suite are kept apart by `.serialized`.
public struct TakingTurns: SuiteTrait, TestScoping {
  /// How many suites have the machine at the same time.
  static let places = 4
  private static let turns = Turns(places: places)

  /// For suites in a suite that has its turn already.
  @TaskLocal private static var hasTurn = false

  /// Why the machine has to do nothing else meanwhile; nil if the suite shares it.
  let aloneBecause: String?

  /// Waits for the suite's turn, runs it on threads of its own, and passes the turn on.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard !Self.hasTurn else { return try await function() }
    let places = aloneBecause == nil ? 1 : Self.places
    await Self.turns.take(places)
    // All other tests are ready when a run begins. They go first: a time limit is not to run while they have the threads.
    for _ in 0..<16 { await Task.yield() }
    let result: Result<Void, any Error>
    do {
      // Tests that wait for a process block their thread, and Swift has one for each processor.
      result = .success(
        try await withTaskExecutorPreference(TestThreads.shared) {
          try await Self.$hasTurn.withValue(true) { try await function() }
        })
    } catch {
      result = .failure(error)
    }
    await Self.turns.give(places)
    try result.get()
  }
}

extension Trait where Self == TakingTurns {
  /// For a suite that starts hosts, agents or machines: a few of them run at the same time, in any target.
  public static var takingTurns: Self { Self(aloneBecause: nil) }

  /// The same for a suite that has to have the machine to itself, with the reason.
  ///
  /// Suites that do not take turns may still run beside it.
  public static func takingTurns(aloneBecause reason: String) -> Self { Self(aloneBecause: reason) }
}

/// Places that are taken in the order of asking.
private actor Turns {
  private var free: Int
  private var waiting: [(places: Int, continuation: CheckedContinuation<Void, Never>)] = []

  init(places: Int) { free = places }

  func take(_ places: Int) async {
    if waiting.isEmpty, free >= places {
      free -= places
      return
    }
    await withCheckedContinuation { waiting.append((places, $0)) }
  }

  /// Suites that need all places go last: each of them waits until all others have ended, and nobody starts meanwhile.
  func give(_ places: Int) {
    free += places
    while let index = waiting.indices.min(by: { waiting[$0].places < waiting[$1].places }),
      free >= waiting[index].places
    {
      free -= waiting[index].places
      waiting.remove(at: index).continuation.resume()
    }
  }
}

/// Threads for tests that block the one they run on.
///
/// One more than there are places: the tests of a suite that are not serialized share it.
private final class TestThreads: TaskExecutor {
  static let shared = TestThreads(count: TakingTurns.places + 1)

  private let jobs = Mutex<[UnownedJob]>([])
  private let available = DispatchSemaphore(value: 0)

  private init(count: Int) {
    for _ in 0..<count {
      Thread.detachNewThread { [self] in
        while true {
          available.wait()
          let job = jobs.withLock { $0.removeFirst() }
          job.runSynchronously(on: asUnownedTaskExecutor())
        }
      }
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    available.signal()
  }
}
