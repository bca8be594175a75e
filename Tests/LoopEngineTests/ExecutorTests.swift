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
