import CLinux
import CUnwind
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import StallCapture

/// The self-tests of where the runtime of Swift concurrency keeps a task.
@Suite(.serialized)
struct TaskLayoutTests {
  private func onPreparedThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      Thread {
        cunwind_memory_prepare()
        let value = body()
        cunwind_memory_finish()
        continuation.resume(returning: value)
      }.start()
    }
  }

  /// The same on each thread, in a task or not.
  @Test func placeOfTheCurrentTaskIsTheSameOnEachThread() async throws {
    let word = try #require(await onPreparedThread { CurrentTaskWord.find() })
    #expect(await onPreparedThread { CurrentTaskWord.find() } == word)
    let inTask = await Task.detached { CurrentTaskWord.find() }.value
    #expect(inTask == word)
  }

  /// A thread that keeps to its task until it is released.
  private final class HeldTask: Sendable {
    struct Facts: Sendable {
      var thread: UInt64
      var task: UInt64
    }
    let facts = Mutex<Facts?>(nil)
    private let released = DispatchSemaphore(value: 0)
    private let arrived = DispatchSemaphore(value: 0)

    func run() {
      facts.withLock {
        $0 = Facts(thread: UInt64(clinux_thread_pointer()), task: clinux_current_task())
      }
      arrived.signal()
      released.wait()
    }

    func waitForArrival() { arrived.wait() }
    func release() { released.signal() }
  }

  @Test func currentTaskOfAnotherThreadIsRead() async throws {
    let held = HeldTask()
    let task = Task.detached { held.run() }
    let seen: (word: UInt64?, facts: HeldTask.Facts?, word2: UInt64?) = await onPreparedThread {
      held.waitForArrival()
      let facts = held.facts.withLock { $0 }
      let word = CurrentTaskWord.find()
      let seen = facts.flatMap { word?.read(threadPointer: $0.thread) }
      // This thread runs none.
      let own = word?.read(threadPointer: UInt64(clinux_thread_pointer()))
      held.release()
      return (seen, facts, own)
    }
    await task.value
    #expect(seen.facts?.task != 0)
    #expect(seen.word == seen.facts?.task)
    #expect(seen.word2 == 0)
  }

  @Test func memoryThatIsGoneIsNoTask() {
    #expect(CurrentTaskWord(offset: -48).read(threadPointer: 4096) == nil)
  }

  @Test func layoutIsKnown() async {
    #expect(await onPreparedThread { TaskLayout.current != nil })
  }
}
