import Testing

@testable import StallReport

/// The sentences that reports contain for people.
struct MessageTests {
  private func report(
    _ event: Report.Event, _ cause: Cause = .lock, wait: String? = "futex(wait)", holder: LockHolder? = nil,
    kind: LoopKind = .loop
  ) -> Report {
    var evidence = Verdict.Evidence(state: "blocked", wait: wait)
    if let holder { evidence.wait = (wait ?? "") + ": " + holder.text }
    evidence.lockHolder = holder
    return Report(
      time: .now(), event: event, stallID: "a", sequence: 1, thresholdNanoseconds: 250_000_000,
      durationNanoseconds: 619_000_000, verdict: Verdict(cause: cause, evidence: evidence),
      culprit: StackFrame(symbol: "load", file: "/load.c", line: 8), fingerprint: "v1:a", samples: 1,
      loop: .init(name: "main", kind: kind, mode: nil, phase: .afterWaiting, callout: nil), threadID: 1,
      origin: .init(processID: 1, executablePath: "/x", serviceName: "x", hostName: "h"), stack: [])
  }

  private func summary(of report: Report, _ count: UInt64, isOverBudget: Bool = false) -> String {
    report.summary(
      of: SuppressedStalls(
        count: count, total: 1_800_000_000, longest: 700_000_000, window: 30_000_000_000, isOverBudget: isOverBudget),
      at: .now()
    ).message
  }

  @Test(arguments: [
    (nil, "for another thread"),
    (LockHolder(thread: 12, kind: .mutex), "for a pthread mutex held by thread 12"),
    (LockHolder(thread: 12, kind: .inheriting), "for a mutex held by thread 12"),
    (LockHolder(thread: 12, kind: .readWrite), "for a read-write lock held by thread 12"),
    (LockHolder(thread: 12, kind: .stream), "for the lock of a standard stream, held by thread 12"),
    (LockHolder(thread: 12, kind: .thread), "for the end of thread 12"),
    (LockHolder(thread: 12, kind: .queue), "for a dispatch queue, which thread 12 runs"),
    (LockHolder(thread: 12, kind: .queue, label: "x"), "for dispatch queue \"x\", which thread 12 runs"),
  ])
  func waitForAnotherThread(holder: LockHolder?, words: String) {
    #expect(
      report(.ended, holder: holder).message
        == "main loop blocked for 619 ms in load (load.c:8): waiting in futex(wait) \(words)")
  }

  /// Why the lock is not given back is the first that one wants to know.
  @Test(arguments: [
    ("ftruncate(fd 5)", "flush_audit", "; thread 12 is in flush_audit (audit.c:80), in ftruncate(fd 5)"),
    ("running", "flush_audit", "; thread 12 is running in flush_audit (audit.c:80)"),
    ("ftruncate(fd 5)", nil, "; thread 12 is in ftruncate(fd 5)"),
    (nil, nil, ""),
  ])
  func holderIsShownWithWhatItDoes(state: String?, symbol: String?, words: String) {
    var report = report(.ended, holder: LockHolder(thread: 12, kind: .mutex))
    let frame = StackFrame(
      symbol: symbol, shortSymbol: symbol, file: symbol.map { _ in "/x/audit.c" }, line: 80, module: "/app", offset: 8)
    report.threads = [Report.OtherThread(id: 12, role: .lockHolder, state: state, stack: [frame])]
    #expect(report.message.hasSuffix(" for a pthread mutex held by thread 12" + words))
    // A circle says it already.
    report.verdict.evidence.deadlock = [11, 12]
    #expect(report.message.hasSuffix("12 waits for 11"))
  }

  @Test func sharesOfAThreadThatWasReadyAreShownIfNeitherIsMostOfIt() {
    var report = report(.ended)
    report.verdict.cause = .running
    report.verdict.evidence.usage = ResourceUsage(
      observed: 1_600_000_000, cpu: 834_000_000, runDelay: 715_000_000, throttled: 0, majorFaults: 0, minorFaults: 0,
      blockDelay: 0, pressure: nil)
    #expect(report.message.hasSuffix(": running on CPU: on CPU for 834 ms, ready without a CPU for 715 ms"))
    report.verdict.evidence.usage?.runDelay = 100_000_000
    #expect(report.message.hasSuffix(": running on CPU"))
  }

  @Test(arguments: [
    (WaitedFor.thread, "for another thread"), (.process, "for another process"),
    (.threadOrProcess, "for another thread or process"),
    (.timeLimit, "for no thread in particular, with a time limit"), (.kernel, "inside the kernel"),
  ])
  func waitWithoutAKnownThread(waitedFor: WaitedFor, words: String) {
    var report = report(.ended)
    report.verdict.evidence.waitedFor = waitedFor
    #expect(report.message.hasSuffix(": waiting in futex(wait) \(words)"))
    #expect(summary(of: report, 3).hasSuffix("; waiting in futex(wait) \(words)"))
    // A thread that is known is what it waits for.
    report.verdict.evidence.lockHolder = LockHolder(thread: 12, kind: .mutex)
    #expect(report.message.hasSuffix(": waiting in futex(wait) for a pthread mutex held by thread 12"))
  }

  @Test("a stall that was longer than its watch lasted for at least this time")
  func watchThatEndedFirst() {
    var report = report(.ended, .sleep, wait: "poll(1 s)")
    report.verdict.evidence.watchEnded = true
    #expect(report.message == "main loop blocked for at least 619 ms in load (load.c:8): sleeping in poll(1 s)")
  }

  @Test func summaryOfRepetitionsNamesTheFunctionAfterTheVerb() {
    let durations = "in 30 s, 1800 ms in total, the longest 700 ms"
    let sleeping = report(.ended, .sleep, wait: "poll(1 s)")
    #expect(
      summary(of: sleeping, 3)
        == "main loop blocked 3 more times in load (load.c:8): \(durations); sleeping in poll(1 s)")
    #expect(summary(of: sleeping, 1).hasPrefix("main loop blocked once more in load (load.c:8): \(durations);"))
    // Each of the stalls may have waited for another thread.
    #expect(
      summary(of: report(.ended, holder: LockHolder(thread: 12, kind: .mutex)), 3)
        .hasSuffix("; waiting in futex(wait) for another thread (pthread mutex)"))
  }

  @Test func summaryOfTasksNamesNone() {
    var report = report(.ended, .sleep, kind: .taskPool)
    report.task = .init(id: 1, name: "order 4711", priority: 0x15, actor: nil)
    #expect(summary(of: report, 3).hasPrefix("tasks blocked their threads 3 more times in load (load.c:8): "))
  }

  /// They may be of several loops and functions.
  @Test func summaryOverTheLimitNamesOnlyTheProcess() {
    let reason = "counted and not reported, because of the limit of reports per minute"
    let durations = "in 30 s, 1800 ms in total, the longest 700 ms"
    #expect(
      summary(of: report(.ended), 12, isOverBudget: true)
        == "12 stalls of this process were \(reason): \(durations)")
    #expect(
      summary(of: report(.ended), 1, isOverBudget: true) == "1 stall of this process was \(reason): \(durations)")
  }

  /// A debugger may stop one thread, and the watchdog sees it; or all, and then nothing is sampled.
  @Test func stopOfAThreadIsNoStopOfTheProcess() {
    var report = report(.ended, .stopped, wait: "stopped by a debugger or another tracer", kind: .taskPool)
    report.culprit = nil
    #expect(report.message == "a task blocked its thread for 619 ms: stopped by a debugger or another tracer")
    report.samples = 0
    report.verdict.evidence = .init()
    #expect(report.message.hasPrefix("the whole process was stopped for 619 ms: stopped by a signal or a debugger"))
  }

  @Test func poolWithoutAThread() {
    var report = report(.ongoing, .starved, wait: "no thread of Swift concurrency has started the queued work")
    (report.culprit, report.verdict.evidence.state) = (nil, nil)
    #expect(
      report.message
        == "main loop has been blocked for 619 ms: no thread of Swift concurrency has started the queued work")
    report.verdict.evidence = .init(state: "blocked", wait: "futex(wait)")
    #expect(report.message.hasSuffix(": ready to run, but no CPU was available"))
  }

  /// The program that adds names to a line makes the message again from the line.
  @Test func messageCanBeMadeOfTheLine() throws {
    var reports: [Report] = []
    for event in [Report.Event.started, .ongoing, .ended, .fatal] {
      for kind in LoopKind.allCases {
        for cause in Cause.allCases { reports.append(report(event, cause, kind: kind)) }
      }
    }
    for kind in LockHolder.Kind.allCases {
      let label = kind == .queue ? "an \"order\"" : nil
      reports.append(report(.ended, holder: LockHolder(thread: 12, kind: kind, label: label)))
    }
    for waitedFor in WaitedFor.allCases {
      var report = report(.ended)
      report.verdict.evidence.waitedFor = waitedFor
      reports.append(report)
    }
    for change in Self.changes {
      var report = report(.ended, .unknown)
      change(&report)
      reports.append(report)
    }
    for report in reports where report.event == .ended {
      let tally = SuppressedStalls(count: 3, total: 1_800_499_700, longest: 700_000_000, window: 29_499_999_900)
      reports.append(report.summary(of: tally, at: .now()))
    }
    var overBudget = SuppressedStalls(count: 1, total: 5_000_000, longest: 5_000_000, window: 60_000_000_000)
    overBudget.isOverBudget = true
    reports.append(reports[0].summary(of: overBudget, at: .now()))
    #expect(reports.count > 300)
    for var report in reports {
      // A line has the place of the function only with its stack.
      if report.culprit != nil { report.culprit = StackFrame(symbol: "load") }
      let read = try #require(Report(JSONText(report.line().dropLast())))
      #expect(read.message == report.message)
    }
  }

  private static let changes: [@Sendable (inout Report) -> Void] = [
    { $0.durationNanoseconds = 1_499_999_700 },
    { $0.isAtLeast = true },
    { $0.isAborting = true },
    { $0.verdict.evidence.watchEnded = true },
    { $0.verdict.evidence.starves = true },
    { $0.verdict.evidence.samplesDisagree = true },
    { $0.verdict.evidence.callouts = CalloutTimes(count: 389, age: 1, longest: 2_499_999) },
    { $0.verdict.evidence.deadlock = [12, 13] },
    { ($0.verdict.cause, $0.samples) = (.stopped, 0) },
    { ($0.loop.kind, $0.captureFailure) = (.taskPool, .severalJobs) },
    { ($0.loop.kind, $0.task) = (.taskPool, .init(id: 7, name: "order 4711")) },
    { ($0.loop.phase, $0.culprit) = (.heartbeat, nil) },
    {
      $0.verdict.cause = .running
      $0.verdict.evidence.usage = ResourceUsage(
        observed: 1_600_000_000, cpu: 734_999_700, runDelay: 815_000_000, throttled: 0, majorFaults: 0, minorFaults: 0,
        blockDelay: 0, pressure: nil)
    },
  ]
}
