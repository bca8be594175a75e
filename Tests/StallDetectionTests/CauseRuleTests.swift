import StallReport
import Testing

@testable import StallDetection

/// Which cause the evidence of a stall shows.
struct CauseRuleTests {
  private static let ms: UInt64 = 1_000_000

  /// What the kernel counted; times in milliseconds.
  private func usage(
    _ observed: UInt64, cpu: UInt64, delay: UInt64 = 0, throttled: UInt64 = 0, own: UInt64 = 0, majorFaults: UInt64 = 0
  ) -> ResourceUsage {
    var usage = ResourceUsage(
      observed: observed * Self.ms, cpu: cpu * Self.ms, runDelay: delay * Self.ms, throttled: throttled * Self.ms,
      majorFaults: majorFaults, minorFaults: 0, blockDelay: 0, pressure: nil, waits: 1)
    usage.throttledByOwnQuota = own * Self.ms
    return usage
  }

  /// A whole stall; times in milliseconds.
  private func stall(
    _ duration: UInt64, _ shares: [Cause: UInt64], _ usage: ResourceUsage? = nil,
    activity: ThreadActivity = .unknown, failure: CaptureFailure? = nil
  ) -> StallEvidence {
    StallEvidence(
      activity: activity, failure: failure, usage: usage, duration: duration * Self.ms,
      shares: shares.mapValues { $0 * Self.ms })
  }

  @Test("a moment has the cause of what the thread does, or of why it could not be seen")
  func moments() {
    #expect(StallEvidence(activity: .inCall(.io)).cause == .io)
    #expect(StallEvidence(activity: .running).cause == .running)
    #expect(StallEvidence(activity: .running, usage: usage(400, cpu: 10, delay: 380)).cause == .starved)
    #expect(
      StallEvidence(activity: .running, usage: usage(400, cpu: 10, delay: 380, throttled: 300)).cause == .throttled)
    #expect(StallEvidence(activity: .running, failure: .noProcessor).cause == .starved)
    #expect(StallEvidence(activity: .unknown, failure: .noServer).cause == .starved)
    #expect(StallEvidence(activity: .running, failure: .stopped).cause == .stopped)
    #expect(StallEvidence(activity: .outsideCall).cause == .unknown)
    #expect(StallEvidence(activity: .outsideCall, usage: usage(400, cpu: 1, majorFaults: 1)).cause == .fault)
    #expect(StallEvidence(activity: .unknown).cause == .unknown)
  }

  @Test("of a stall, what took the most time counts, and the causes of a ready thread count together")
  func shares() {
    #expect(stall(1000, [.sleep: 600, .running: 400]).cause == .sleep)
    #expect(stall(1000, [.sleep: 400, .running: 300, .starved: 300]).cause.isReady)
    #expect(stall(1000, [.unknown: 500, .lock: 500]).cause == .lock)
    #expect(stall(1000, [.unknown: 900, .running: 100]).cause == .unknown)
  }

  @Test("counters of most of a stall decide why a ready thread was late")
  func counters() {
    #expect(stall(1000, [.running: 1000], usage(900, cpu: 200, delay: 700)).cause == .starved)
    #expect(stall(1000, [.starved: 1000], usage(900, cpu: 800, delay: 100)).cause == .running)
    // They know too little of it.
    #expect(stall(1000, [.starved: 1000], usage(300, cpu: 290, delay: 10)).cause == .starved)
    // A capture in vain is evidence by itself.
    #expect(stall(1000, [.starved: 1000], usage(900, cpu: 800), failure: .noProcessor).cause == .starved)
  }

  /// The turn was first seen late: what the thread waited for a processor is counted when that is over.
  @Test("a thread that had 5 ms of a processor and waited 250 ms for one is starved")
  func waitBeforeTheFirstCheck() {
    #expect(stall(300, [.running: 300], usage(60, cpu: 5, delay: 250)).cause == .starved)
    // It slept for most of the time, and the counters cover all of the rest.
    #expect(stall(900, [.running: 500, .sleep: 400], usage(260, cpu: 5, delay: 250)).cause == .starved)
  }

  @Test("many short pieces of work have no cause, unless a processor was missing")
  func shortPieces() {
    #expect(stall(1000, [.running: 1000], usage(1000, cpu: 900), failure: .shortCallouts).cause == .unknown)
    #expect(
      stall(1000, [.running: 1000], usage(1000, cpu: 300, delay: 650), failure: .noCommonFunction).cause == .starved)
  }

  @Test("the machine is responsible for a missing processor, and the service for its own quota and threads")
  func excuses() {
    #expect(stall(1000, [.starved: 1000], usage(900, cpu: 100, delay: 800)).isOfTheMachine)
    #expect(stall(1000, [.stopped: 1000]).isOfTheMachine)
    #expect(!stall(1000, [.starved: 1000], failure: .noServer).isOfTheMachine)
    #expect(!stall(1000, [.throttled: 1000], usage(900, cpu: 100, delay: 800, throttled: 700, own: 700)).isOfTheMachine)
    #expect(stall(1000, [.throttled: 1000], usage(900, cpu: 100, delay: 800, throttled: 700, own: 100)).isOfTheMachine)
    #expect(!stall(1000, [.lock: 1000]).isOfTheMachine)
  }

  @Test("each rule says what it decides by, in one sentence")
  func texts() {
    for rule in CauseRule.all {
      #expect(rule.text.hasSuffix(".") && !rule.text.dropLast().contains(". "), "\(rule.text)")
    }
  }
}
