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
    let word = try #require(await onPreparedThread { CurrentTaskWord.find(in: .own) })
    #expect(await onPreparedThread { CurrentTaskWord.find(in: .own) } == word)
    let inTask = await Task.detached { CurrentTaskWord.find(in: .own) }.value
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
      let word = CurrentTaskWord.find(in: .own)
      let seen = facts.flatMap { word?.read(threadPointer: $0.thread, in: .own) }
      // This thread runs none.
      let own = word?.read(threadPointer: UInt64(clinux_thread_pointer()), in: .own)
      held.release()
      return (seen, facts, own)
    }
    await task.value
    #expect(seen.facts?.task != 0)
    #expect(seen.word == seen.facts?.task)
    #expect(seen.word2 == 0)
  }

  /// What `read` finds on a prepared thread while a task, which `start` begins, keeps its thread.
  private func whileHeld<Value: Sendable>(
    _ start: (HeldTask) -> Void, read: @escaping @Sendable (HeldTask.Facts?) -> Value
  ) async -> Value {
    let held = HeldTask()
    start(held)
    return await onPreparedThread {
      held.waitForArrival()
      let value = read(held.facts.withLock { $0 })
      held.release()
      return value
    }
  }

  /// What is read of a task on another thread, and what the task itself knows.
  private func running(_ start: (HeldTask) -> Void) async -> (read: RunningTask?, id: UInt64?) {
    await whileHeld(start) { facts in
      let read = facts.flatMap { ProcessHandle.own.taskLayout?.runningTask(threadPointer: $0.thread) }
      return (read, facts.map { clinux_task_id($0.task) })
    }
  }

  @Test func idAndNameOfAnotherThreadsTaskAreRead() async throws {
    let (read, id) = await running { held in Task.detached(name: "an import") { held.run() } }
    #expect(read?.name == "an import")
    #expect(read.map { UInt64($0.id) } == id)
    #expect(read?.isChild == false)
  }

  @Test func taskWithoutANameHasNone() async throws {
    let (read, id) = await running { held in Task.detached { held.run() } }
    #expect(read != nil)
    #expect(read.map { UInt64($0.id) } == id)
    #expect(read?.name == nil)
  }

  @Test func childTaskIsOne() async throws {
    let (read, _) = await running { held in
      Task.detached {
        async let child: Void = held.run()
        await child
      }
    }
    #expect(read?.isChild == true)
  }

  private enum Kitchen {
    actor Oven<Meal> {
      func hold(_ held: HeldTask, _: Meal.Type) { held.run() }
    }
  }

  private actor Porter {}

  @Test func actorOfAnotherThreadsTaskIsRead() async throws {
    let oven = Kitchen.Oven<[Int]>()
    let (read, _) = await running { held in Task.detached { await oven.hold(held, [Int].self) } }
    #expect(read?.actor == "StallMonitorTests.TaskLayoutTests.Kitchen.Oven")
    let (other, _) = await running { held in Task.detached { held.run() } }
    #expect(other != nil && other?.actor == nil)
  }

  #if compiler(>=6.3)
  @Test func yieldOfAnotherThreadsTaskIsRead() async {
    func hasYielded(_ start: (HeldTask) -> Void) async -> Bool? {
      await whileHeld(start) { facts in
        facts.flatMap { ProcessHandle.own.taskLayout?.hasYielded(threadPointer: $0.thread) }
      }
    }
    let yielded = await hasYielded { held in
      Task.detached {
        await Task.yield()
        held.run()
      }
    }
    #expect(yielded == true)
    let resumed = await hasYielded { held in
      Task.detached {
        await withUnsafeContinuation { $0.resume() }
        held.run()
      }
    }
    #expect(resumed == false)
  }
  #endif

  @Test func typesOfObjectsAreNamed() async {
    func name(_ object: AnyObject) async -> String? {
      let address = UInt64(UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque()))
      return await onPreparedThread { TypeName.of(object: address, in: .own) }
    }
    #expect(await name(Porter()) == "StallMonitorTests.TaskLayoutTests.Porter")
    #expect(await name(HeldTask()) == "StallMonitorTests.TaskLayoutTests.HeldTask")
    final class Local: Sendable {}
    #expect(await name(Local())?.hasSuffix(".Local") == true)
    // Neither memory that is not an object nor none at all.
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 16)
    defer { words.deallocate() }
    words.initialize(repeating: 0x10, count: 16)
    let address = UInt64(UInt(bitPattern: words))
    #expect(await onPreparedThread { TypeName.of(object: address, in: .own) } == nil)
    #expect(await onPreparedThread { TypeName.of(object: 4096, in: .own) } == nil)
  }

  @Test func threadWithoutATaskRunsNone() async throws {
    let none = await onPreparedThread {
      ProcessHandle.own.taskLayout?.runningTask(threadPointer: UInt64(clinux_thread_pointer()))
    }
    #expect(none == nil)
  }

  @Test func memoryThatIsGoneIsNoTask() {
    #expect(CurrentTaskWord(offset: -48).read(threadPointer: 4096, in: .own) == nil)
  }

  @Test func layoutIsKnown() async {
    #expect(await onPreparedThread { ProcessHandle.own.taskLayout != nil })
  }
}
