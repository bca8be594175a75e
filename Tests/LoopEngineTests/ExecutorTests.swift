import Foundation
import Glibc
import TestSupport
import Testing

@testable import LoopEngine

/// Actors and tasks whose jobs a loop runs, and what becomes of the jobs when its thread has ended.
@Suite struct ExecutorTests {
  /// An actor on a loop.
  actor Resident {
    nonisolated let loop: Loop
    private(set) var calls = 0
    private(set) var overlaps = 0
    private var isCalled = false

    init(_ loop: Loop) { self.loop = loop }

    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Whether it runs on the loop's thread.
    func isThere() -> Bool {
      loop.assertIsolated()
      return loop.isCurrent
    }

    /// Counts the calls, and those during which another one runs.
    func call() {
      if isCalled { overlaps += 1 }
      isCalled = true
      usleep(200)
      calls += 1
      isCalled = false
    }

    func callout() -> Loop.Callout? { loop.snapshot.callout }
  }

  /// An actor without an executor of its own.
  actor Neighbour {
    func isOn(_ loop: Loop) -> Bool { loop.isCurrent }
  }

  @Test func anActorLivesOnALoop() async throws {
    let thread = PermanentThread(name: "resident")
    try thread.start()
    let resident = Resident(try #require(thread.loop))
    let onLoop = await resident.isThere()
    await Task.yield()
    let still = await resident.isThere()
    #expect(onLoop && still)
    thread.stop()
  }

  @Test func aTaskThatPrefersALoopRunsOnItsThread() async throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    @Sendable func isThere() async -> Bool { loop.isCurrent }
    let answers = await Task(executorPreference: loop) {
      var answers = [loop.isCurrent]
      await Task.yield()
      answers.append(loop.isCurrent)
      async let child = isThere()
      answers.append(await child)
      answers.append(await Neighbour().isOn(loop))
      answers.append(await MainActor.run { loop.isCurrent })
      answers.append(await isThere())
      return answers
    }.value
    #expect(answers == [true, true, true, true, false, true])
    thread.stop()
  }

  @Test func jobsForALoopThatHasEndedRunOneAtATime() async throws {
    let resident = Resident(try onFreshLoop { $0 })
    await withTaskGroup { group in
      for _ in 0..<50 { group.addTask { await resident.call() } }
    }
    #expect(await resident.calls == 50)
    #expect(await resident.overlaps == 0)
    // Once more, when the thread for them has gone again.
    #expect(await !Task(executorPreference: resident.loop) { resident.loop.isCurrent }.value)
    #expect(!resident.loop.isCurrent)
  }

  /// A task that waited for such a job would otherwise never continue.
  @Test func jobsForALoopThatHasEndedRunWhereNoThreadCanBeMade() async {
    await #expect(processExitsWith: .success) {
      let resident = Resident(try onFreshLoop { $0 })
      // The C library keeps stacks of threads that have ended: these take them.
      for _ in 0..<16 { _ = TestThread { while true { pause() } } }
      // Enough for everything but a stack.
      let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).prefix { $0 != " " }
      var limit = rlimit()
      getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
      limit.rlim_cur = rlim_t(UInt64(pages)! * UInt64(getpagesize()) + 1 << 20)
      setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
      for _ in 0..<3 { await resident.call() }
      #expect(await resident.calls == 3)
      #expect(await resident.overlaps == 0)
    }
  }

  @Test func aJobThatTheThreadsEndOvertakesStillRuns() async throws {
    let loops = Log<Loop>()
    let gate = Pipe()
    defer { gate.close() }
    // Its loop never runs.
    let thread = TestThread {
      loops.append(.current)
      gate.read()
    }
    #expect(eventually { loops.count == 1 })
    let loop = loops.all[0]
    let resident = Resident(loop)
    // Enqueued by this thread.
    let call = Task(executorPreference: loop) { await resident.call() }
    #expect(loop.inbox.mayHaveWork)
    gate.write()
    thread.join()
    await call.value
    #expect(await resident.calls == 1)
  }

  @Test func aJobsCalloutHasANameAndNoLineOfOurs() async throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let callout = try #require(await Resident(loop).callout())
    #expect(callout.kind == .block && callout.name == "job of an actor or a task")
    #expect(callout.fileID == nil && callout.line == 0)
    thread.stop()
  }

  @Test func whatTheMonitorRunsInATurnHasNoLineOfOurs() throws {
    let log = Log<Loop.Callout?>()
    _ = try onFreshLoop { loop in
      _ = loop.performInTurn { log.append(loop.snapshot.callout) }
      loop.run()
    }
    let callout = try #require(log.all[0])
    #expect(callout.kind == .block && callout.fileID == nil && callout.name == nil)
  }

  @Test func isolationHoldsOnTheLoopsThreadAlone() throws {
    let answers = try onFreshLoop { loop in
      loop.checkIsolated()
      let elsewhere = Log<Bool?>()
      TestThread { elsewhere.append(loop.isIsolatingCurrentContext()) }.join()
      return [loop.isIsolatingCurrentContext()] + elsewhere.all
    }
    #expect(answers == [true, false])
  }

  @Test func aCheckOfIsolationOnAnotherThreadStopsTheProgram() async {
    await #expect(processExitsWith: .failure) {
      let loop = Loop.current
      TestThread { loop.checkIsolated() }.join()
    }
  }
}
