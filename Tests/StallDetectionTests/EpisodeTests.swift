import StallReport
import TestSupport
import Testing

@testable import StallDetection

/// What the samples and counters of a stall show.
struct EpisodeTests {
  @Test func verdictIsOverTheWholeStallAndNotItsLastMoment() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    episode.add(.stub(cause: .sleep, symbol: "sleeper()"), at: 800)
    episode.add(.stub(cause: .running, symbol: "computer()"), at: 1000)
    #expect(episode.cause == .sleep)
    #expect(episode.heaviest?.stack.first?.symbol == "sleeper()")
  }

  /// The intervals grow: what comes last in a stall is not half of it.
  @Test func sampleRepresentsTheTimeThatIsNearestToIt() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    for (time, symbol, cause) in [
      (100, "computer()", .running), (200, "computer()", .running), (420, "cleaner()", .starved),
    ] as [(Instant, String, Cause)] {
      episode.add(.stub(cause: cause, symbol: symbol), at: time)
    }
    #expect(episode.heaviest?.stack.first?.symbol == "computer()" && episode.cause == .running)
    #expect(episode.summaries.map(\.weight) == [150, 160, 110])
    #expect(episode.weight(of: .running) == 310 && episode.weight(of: .starved) == 110)
    #expect(episode.tree.total == 420 && episode.tree.samples == 3 && episode.tree.nodes.map(\.samples) == [2, 1])
    // The last one, what follows as well; and no time in which the process was stopped.
    episode.addFreeze(1000, at: 1500)
    for _ in 0..<2 { episode.note(nil, at: 1540, isOver: true) }
    #expect(episode.weight(of: .running) == 310 && episode.weight(of: .starved) == 230)
    #expect(episode.summaries.map(\.weight) == [150, 160, 230] && episode.tree.total == 540)
  }

  /// What the kernel counted; times in milliseconds.
  private func usage(_ observed: UInt64, cpu: UInt64, delay: UInt64 = 0, throttled: UInt64 = 0, waits: UInt64 = 1)
    -> ResourceUsage
  {
    ResourceUsage(
      observed: observed * 1_000_000, cpu: cpu * 1_000_000, runDelay: delay * 1_000_000,
      throttled: throttled * 1_000_000, majorFaults: 0, minorFaults: 0, blockDelay: 0, pressure: nil, waits: waits)
  }

  @Test("where waits for a processor are not counted, only a thread that had one was running")
  func uncountedRunDelay() {
    var usage = usage(400, cpu: 300)
    usage.countsRunDelay = false
    #expect(CauseRule.readyCause(usage) == .running)
    usage.cpu = 100_000_000
    #expect(CauseRule.readyCause(usage) == .unknown)
  }

  @Test("a wait outside a call is for the disk if the kernel has counted a page that was read from it")
  func waitOutsideACall() {
    var usage = usage(400, cpu: 1)
    #expect(StallEvidence(activity: .outsideCall, usage: usage).cause == .unknown)
    usage.majorFaults = 1
    #expect(StallEvidence(activity: .outsideCall, usage: usage).cause == .fault)
  }

  /// A sample of a thread that runs, or is blocked.
  private func sample(_ symbol: String, _ cause: Cause, waitsFor holder: Int32? = nil) -> Episode.Sample {
    var sample = Episode.Sample.stub(cause: cause, symbol: symbol)
    sample.thread = 1
    sample.lockHolder = holder.map { LockHolder(thread: $0, kind: .mutex) }
    return sample
  }

  /// What the kernel counted decides how much of the time a sample can represent.
  @Test func timeThatNoSampleCanRepresentHasNoFunction() {
    func stall(
      _ samples: [(at: UInt64, symbol: String, cause: Cause, cpu: UInt64)], waits: UInt64 = 1
    ) -> Episode {
      var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
      for (time, symbol, cause, cpu) in samples {
        episode.add(sample(symbol, cause), at: Instant(time * 1_000_000), usage: usage(time, cpu: cpu, waits: waits))
      }
      return episode
    }
    // It waited for nearly all of the time, in something that is not known; or the process was stopped.
    let waited = stall([(1000, "f()", .running, 40)])
    #expect(waited.cause == .unknown && waited.heaviest?.failure == .notSampled)
    #expect(waited.heaviest?.stack.isEmpty == true)
    // It never waited: a hypervisor had the processor.
    #expect(stall([(1000, "f()", .running, 40)], waits: 0).cause == .running)
    // It computed, and no sample shows what.
    let computed = stall([(250, "f()", .sleep, 230)])
    #expect(computed.cause == .running && computed.heaviest?.failure == .notSampled)
    // Between two samples of which one shows either, each has its part.
    let both = stall([(250, "f()", .running, 250), (1250, "g()", .sleep, 350)])
    #expect(both.cause == .sleep && both.heaviest?.stack.first?.symbol == "g()")
    #expect(both.summaries.map(\.weight) == [350_000_000, 900_000_000])
    // Periodic work, always met at the same place.
    let periodic = stall((1...6).map { ($0 * 100, "f()", .sleep, $0 * 60) })
    #expect(periodic.cause == .running && periodic.heaviest?.failure == .notSampled)
    // Counted at a tick of the kernel's clock.
    #expect(stall([(100, "f()", .running, 86)]).summaries.map(\.weight) == [100_000_000])
  }

  /// A turn that began between two checks: what is known of it until the second.
  @Test func beginningOfATurnThatNoCheckHasSeen() {
    func beginning(_ length: UInt64, of observed: UInt64, cpu: UInt64, waits: Bool = true) -> TurnBeginning {
      TurnBeginning(length: length * 1_000_000, in: usage(observed, cpu: cpu), hasBegunNoWait: !waits)
    }
    // 100 ms before the turn and 150 of it, with 120 ms on a processor: 20 of them in the turn, and 30 of the wait.
    let part = beginning(150, of: 250, cpu: 120)
    #expect(part.ready == 20_000_000 && part.waiting == 30_000_000)
    // The wait that it was in at the check was over when the turn began.
    #expect(beginning(150, of: 250, cpu: 150, waits: false).ready == 150_000_000)

    func stall(_ symbol: String, _ cause: Cause, cpu: UInt64, _ beginning: TurnBeginning) -> Episode {
      var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
      episode.add(sample(symbol, cause), at: 250_000_000, usage: usage(100, cpu: cpu), beginning: beginning)
      return episode
    }
    // 150 ms of the turn before it was counted, and then 100 ms.
    let waited = stall("computer()", .running, cpu: 30, beginning(150, of: 160, cpu: 5))
    #expect(waited.cause == .unknown && waited.heaviest?.failure == .notSampled)
    let computed = stall("waiter()", .lock, cpu: 90, beginning(150, of: 160, cpu: 150))
    #expect(computed.cause == .running && computed.heaviest?.failure == .notSampled)
    #expect(stall("computer()", .running, cpu: 100, beginning(150, of: 250, cpu: 150)).cause == .running)
    #expect(stall("waiter()", .lock, cpu: 0, beginning(150, of: 250, cpu: 0)).cause == .lock)
  }

  /// The kernel counts a wait for a processor when it is over: one that had begun in the turn is the turn's.
  @Test func turnThatBeganWithoutAProcessorIsStarved() {
    let beginning = TurnBeginning(
      length: 389_000_000, in: usage(400, cpu: 1), hasBegunNoWait: false, endsQueued: true)
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    episode.add(
      sample("sleeper()", .sleep), at: 650_000_000, usage: usage(261, cpu: 1, delay: 450), beginning: beginning)
    #expect(episode.cause == .starved && episode.heaviest?.failure == .notSampled)
  }

  /// What follows the last sample is of its kind only as far as that was counted, until a while after the end.
  @Test func restOfATurnThatNoSampleCanRepresent() {
    func stall(_ symbol: String, _ cause: Cause, _ rest: ResourceUsage, stolen: UInt64 = 0) -> Episode {
      var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
      let isReady = cause == .running
      episode.add(
        sample(symbol, cause), at: 250_000_000, usage: usage(250, cpu: isReady ? 250 : 0, waits: isReady ? 0 : 1))
      episode.stolen = stolen * 1_000_000
      episode.note(nil, at: 1_000_000_000, isOver: true, usage: rest)
      return episode
    }
    let waited = stall("computer()", .running, usage(1100, cpu: 300))
    #expect(waited.cause == .unknown && waited.heaviest?.failure == .notSampled)
    let computed = stall("waiter()", .lock, usage(1100, cpu: 700))
    #expect(computed.cause == .running && computed.heaviest?.failure == .notSampled)
    // It waits for the next turn, or computes in it.
    #expect(stall("computer()", .running, usage(1100, cpu: 990)).heaviest?.stack.first?.symbol == "computer()")
    #expect(stall("waiter()", .lock, usage(2000, cpu: 1000)).heaviest?.stack.first?.symbol == "waiter()")
    // A hypervisor had the processor.
    #expect(stall("computer()", .running, usage(1100, cpu: 300), stolen: 700).cause == .running)
  }

  /// Of two threads that held what it waited for, the one that did so longer.
  @Test func holderIsTheOneThatWasWaitedForMost() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    for (time, holder) in [(250, 11), (600, 11), (1000, 12)] as [(Instant, Int32)] {
      episode.add(sample("waiter()", .lock, waitsFor: holder), at: time)
    }
    episode.add(sample("other()", .lock, waitsFor: 11), at: 1600)
    #expect(episode.heaviest?.lockHolder?.thread == 11 && episode.heaviest?.stack.first?.symbol == "waiter()")
  }

  /// More threads than are kept apart: the time of a function stays its own.
  @Test func functionThatWaitedForManyHoldersIsResponsible() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    for holder in 0..<64 {
      episode.add(sample("convoy()", .lock, waitsFor: 100 + Int32(holder)), at: Instant(UInt64(holder + 1) * 100))
    }
    episode.add(sample("other()", .lock, waitsFor: 7), at: 6450)
    episode.note(nil, at: 10_000, isOver: true)
    #expect(episode.heaviest?.stack.first?.symbol == "convoy()")
  }

  /// Among the time in which a thread was ready, and not that in which it waited.
  @Test func threadThatMostlyGotNoProcessorIsStarvedOrThrottled() {
    #expect(CauseRule.readyCause(usage(1049, cpu: 175, delay: 493, throttled: 493)) == .throttled)
    #expect(CauseRule.readyCause(usage(1049, cpu: 175, delay: 493)) == .starved)
    // A group's time is the sum over processors.
    #expect(CauseRule.readyCause(usage(1339, cpu: 944, delay: 395, throttled: 2700)) == .running)
    #expect(usage(1303, cpu: 0, delay: 1, throttled: 2306).throttled == 1_000_000)
  }

  /// The function is one in which the stall's cause was seen.
  @Test func functionAndCauseBelongTogether() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    for (time, symbol, cause) in [(900, "a()", .running), (1800, "b()", .running), (3000, "s()", .sleep)]
      as [(Instant, String, Cause)]
    {
      var sample = Episode.Sample.stub(cause: cause, symbol: symbol)
      sample.stack.append(StackFrame(symbol: "turn()"))
      episode.add(sample, at: time)
    }
    episode.note(nil, at: 3600, isOver: true)
    #expect(episode.weight(of: .sleep) == 1200 && episode.weight(of: .running) == 2400)
    #expect(episode.cause == .running && episode.heaviest?.stack.first?.symbol == "a()")
  }

  /// Its name comes after the next samples have been taken.
  @Test func sampleWithoutANameYetRepresentsItsTime() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    let frame = StackFrame(offset: 8)
    episode.add(Episode.Sample(activity: .running, stack: [frame]), at: 100)
    episode.add(.stub(cause: .running, symbol: "g()"), at: 200)
    episode.add(.stub(cause: .running, symbol: "f()"), at: 300)
    episode.name({ $0.map { $0.offset == nil ? $0 : StackFrame(symbol: "f()") } })
    #expect(episode.tree.nodes.map(\.frame.symbol) == ["f()", "g()"])
    #expect(episode.tree.nodes.map(\.weight) == [200, 100] && episode.tree.nodes.map(\.samples) == [2, 1])
    #expect(episode.heaviest?.stack.first?.symbol == "f()")
  }

  /// A threshold of 100.
  private func episode() -> Episode {
    Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0, threshold: 100)
  }

  @Test func manyShortCalloutsNameNoFunction() {
    var episode = episode()
    for (number, time) in [(9, 100), (20, 200), (40, 400)] as [(UInt64, Instant)] {
      episode.add(
        .stub(cause: .running, symbol: "f()"), at: time, callouts: CalloutTimes(count: number, age: 3, longest: 49))
      #expect(episode.heaviest?.stack.isEmpty == true && episode.heaviest?.failure == .shortCallouts)
    }
    episode.note(CalloutTimes(count: 50, age: 2, longest: 49, longestNumber: 7), at: 500, isOver: true)
    #expect(episode.heaviest?.stack.isEmpty == true && episode.heaviest?.failure == .shortCallouts)
    #expect(episode.cause == .unknown)
    #expect(episode.callouts?.longestOfAll == 49)
  }

  /// What no sample has met was as short.
  @Test func timeBetweenSamplesOfShortCalloutsIsTheirs() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0, threshold: 100_000_000)
    for (time, number) in [(250, 9), (600, 40), (1000, 70)] as [(UInt64, UInt64)] {
      episode.add(
        sample("f()", .sleep), at: Instant(time * 1_000_000), callouts: CalloutTimes(count: number, age: 3),
        usage: usage(time, cpu: time / 3))
    }
    episode.note(CalloutTimes(count: 80, age: 2), at: 1_100_000_000, isOver: true)
    #expect(episode.cause == .unknown && episode.heaviest?.failure == .shortCallouts)
  }

  @Test func calloutOfHalfTheThresholdIsResponsible() {
    var episode = episode()
    // Young when it was first met, and old enough when it was met again.
    episode.add(.stub(cause: .sleep, symbol: "short()"), at: 100, callouts: CalloutTimes(count: 3, age: 10))
    episode.add(.stub(cause: .lock, symbol: "long()"), at: 120, callouts: CalloutTimes(count: 4, age: 20))
    #expect(episode.heaviest?.stack.isEmpty == true)
    episode.add(.stub(cause: .lock, symbol: "long()"), at: 300, callouts: CalloutTimes(count: 4, age: 200))
    #expect(episode.heaviest?.stack.first?.symbol == "long()")
    #expect(episode.cause == .lock && episode.weight(of: .lock) == 190 && episode.weight(of: .sleep) == nil)
  }

  /// What three callouts of half the threshold each met is not one piece of work that has no function in common.
  @Test func samplesOfSeveralCalloutsNeedNotAgree() {
    var episode = episode()
    for number in 1...3 as ClosedRange<UInt64> {
      episode.add(
        .stub(cause: .sleep, symbol: "f\(number)()"), at: Instant(60 * number),
        callouts: CalloutTimes(count: number, age: 59))
    }
    #expect(episode.heaviest?.stack.isEmpty == false)
  }

  @Test func calloutIsIdentifiedByItsEnd() {
    // It is the longest of the turn, or the last.
    for last in [CalloutTimes(count: 9, age: 1, longest: 60, longestNumber: 3), CalloutTimes(count: 3, age: 60)] {
      var episode = episode()
      episode.add(.stub(cause: .sleep, symbol: "f()"), at: 100, callouts: CalloutTimes(count: 3, age: 10))
      episode.note(last, at: 160, isOver: true)
      #expect(episode.heaviest?.stack.first?.symbol == "f()")
    }
    var other = episode()
    other.add(.stub(cause: .sleep, symbol: "f()"), at: 100, callouts: CalloutTimes(count: 3, age: 10))
    other.note(CalloutTimes(count: 9, age: 1, longest: 60, longestNumber: 2), at: 160, isOver: true)
    #expect(other.heaviest?.failure == .shortCallouts)
  }

  @Test func frozenTimeIsNoCalloutsFault() {
    for number in [3, 4] as [UInt64] {
      // Frozen for 40 in the first 90; the third callout was running then, and the fourth not yet.
      var episode = Episode(
        id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0, frozen: 40, frozenUntil: 90,
        threshold: 100)
      let callouts = CalloutTimes(count: number, age: number == 3 ? 80 : 49)
      episode.add(.stub(cause: .sleep, symbol: "f()"), at: 140, callouts: callouts)
      #expect(episode.heaviest?.failure == .shortCallouts)
      episode.note(CalloutTimes(count: number, age: callouts.age + 5), at: 145, isOver: true)
      #expect(episode.heaviest?.failure == (number == 3 ? .shortCallouts : nil))
    }
  }

  @Test func samplesWithoutACommonFunctionNameNoFunction() {
    var drain = StackFrame(symbol: "_dispatch_main_queue_drain", module: "libdispatch.so")
    drain.owner = .runtime
    let main = StackFrame(symbol: "main")
    func stacks(_ names: [[String]]) -> [[StackFrame]] {
      names.map { $0.map { StackFrame(symbol: $0) } + [drain, main] }
    }
    #expect(Culprit.disagree(stacks([["a"], ["b"], ["c"]])))
    #expect(Culprit.disagree(stacks([["a"], ["b"], ["c"], ["a"]])))
    #expect(!Culprit.disagree(stacks([["a"], ["b"], ["a"]])))
    #expect(!Culprit.disagree(stacks([["a", "work"], ["b", "work"], ["c", "work"]])))
    #expect(!Culprit.disagree(stacks([["a"], ["b"]])), "too few to say anything")
    #expect(
      !Culprit.disagree(stacks([["a"], ["b"], ["c"]]) + [[StackFrame(offset: 1), drain]]), "it may be one of them")
    // A loop of the service's own is a function like any other.
    #expect(
      !Culprit.disagree([["a", "loop"], ["b", "loop"], ["c", "loop"]].map { $0.map { StackFrame(symbol: $0) } }))
    var episode = Episode(id: "x", turn: TurnWord(phase: .heartbeat, stamp: 0), start: 0)
    for (index, stack) in stacks([["a"], ["b"], ["c"]]).enumerated() {
      episode.add(Episode.Sample(activity: .running, stack: stack), at: Instant(UInt64(index + 1)))
    }
    #expect(episode.heaviest?.failure == .noCommonFunction && episode.heaviest?.stack.isEmpty == true)
  }

  @Test func frozenTimeIsNotPartOfTheDuration() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 100), start: 100)
    episode.addFreeze(300, at: 500)
    #expect(episode.duration(at: 1100) == 700)
  }
}

extension Episode.Sample {
  /// A sample that shows this cause.
  fileprivate static func stub(cause: Cause, symbol: String = "f()") -> Episode.Sample {
    var sample = Episode.Sample(activity: .running, stack: [StackFrame(symbol: symbol)])
    if cause.isKeptFromRunning {
      sample.failure = .noProcessor
    } else if cause != .running {
      sample.activity = .inCall(cause)
    }
    return sample
  }
}
