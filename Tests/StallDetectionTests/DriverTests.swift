import StallDetection
import StallReport
import Synchronization
import TestSupport
import Testing

@testable import StallMonitor

/// What the watchdog's driver reports, in virtual time on one thread.
struct DriverTests {
  private let millisecond: UInt64 = 1_000_000
  private let service = VirtualService()

  private func ended(_ reported: [Reported]) -> [Reported] { reported.filter { $0.event == "stall.ended" } }

  @Test func stallIsReportedAtTheThresholdAndAtItsEnd() {
    let loop = service.loop("main")
    loop.activity = { _ in .inCall(.io) }
    service.turn(of: loop, from: 2_000_000_000, lasting: 20 * millisecond)
    service.turn(of: loop, from: 3_000_000_000, lasting: 1500 * millisecond)
    service.turn(of: loop, from: 6_000_000_000, lasting: 249 * millisecond)
    #expect(
      service.run() == [
        Reported(loop: "main", event: "stall.started", began: 3000, duration: 250, cause: .io),
        Reported(loop: "main", event: "stall.ongoing", began: 3000, duration: 1000, cause: .io),
        Reported(loop: "main", event: "stall.ended", began: 3000, duration: 1500, cause: .io),
      ])
  }

  /// The watchdog is busy with one loop for the whole stall of another.
  @Test func stallThatTheWatchdogMissedIsReportedWithItsDuration() {
    let (first, second) = (service.loop("first"), service.loop("second"))
    first.activity = { _ in .inCall(.sleep) }
    service.sampleTime = 900 * millisecond
    service.turn(of: first, from: 2_000_000_000, lasting: 2000 * millisecond)
    service.turn(of: second, from: 2_260_000_000, lasting: 700 * millisecond)
    let reported = service.run()
    #expect(ended(reported).count == 2)
    #expect(
      reported.contains(Reported(loop: "second", event: "stall.ended", began: 2260, duration: 700, cause: .unknown)))
    #expect(
      reported.contains(Reported(loop: "first", event: "stall.ended", began: 2000, duration: 2000, cause: .sleep)))
  }

  /// Also without a check between its beginning and its end, right after a turn that was late as well.
  @Test func turnsThatEndBetweenChecksAreReportedOnce() {
    let (busy, loop) = (service.loop("busy"), service.loop("main"))
    service.sampleTime = 3000 * millisecond
    service.turn(of: busy, from: 2_000_000_000, lasting: 5000 * millisecond)
    service.turn(of: loop, from: 2_300_000_000, lasting: 400 * millisecond)
    service.turn(of: loop, from: 3_000_000_000, lasting: 100 * millisecond)
    service.turn(of: loop, from: 3_200_000_000, lasting: 300 * millisecond)
    let stalls = service.run().filter { $0.loop == "main" }
    #expect(stalls.map(\.duration) == [400, 300] && stalls.allSatisfy { $0.event == "stall.ended" })
  }

  @Test func freezeInATurnIsDeducted() {
    let loop = service.loop("main")
    // 100 ms of its own, and 3 s in which the process was stopped.
    service.turn(of: loop, from: 2_000_000_000, lasting: 3100 * millisecond)
    service.freeze(at: 2_050_000_000, for: 3000 * millisecond)
    // One that is late by itself.
    service.turn(of: loop, from: 8_000_000_000, lasting: 1600 * millisecond)
    service.freeze(at: 8_100_000_000, for: 1000 * millisecond)
    let reported = service.run()
    #expect(reported.filter { $0.loop == "process" }.map(\.cause) == [.stopped, .stopped])
    let stalls = ended(reported).filter { $0.loop == "main" }
    #expect(stalls.count == 1 && stalls.first?.began == 8000)
    #expect(stalls.first.map { $0.duration >= 350 && $0.duration <= 600 } == true, "\(stalls)")
  }

  /// The watchdog sleeps for longer than that between two checks of a stall.
  @Test func stallIsShorterOnlyByTheTimeOfTheStop() {
    let loop = service.loop("main")
    loop.activity = { _ in .inCall(.io) }
    service.turn(of: loop, from: 2_000_000_000, lasting: 3000 * millisecond)
    // From a moment at which the watchdog has just begun to wait for the next sample.
    service.willWait = { [service] deadline in
      guard let deadline, service.time >= 2_600_000_000, deadline.since(service.time) > 150 * millisecond else {
        return
      }
      service.willWait = { _ in }
      service.later(service.time + 100 * millisecond) { service.stop(for: 200 * millisecond) }
    }
    let stalls = ended(service.run()).filter { $0.loop == "main" }
    #expect(stalls.count == 1)
    // What came after the time at which the watchdog was to wake is proven; never more than the stop.
    #expect(stalls.first.map { (2800..<3000).contains($0.duration) } == true, "\(stalls)")
  }

  @Test func pausedLoopIsNotReported() {
    let loop = service.loop("main")
    service.at(2_000_000_000) { [service] in loop.suspension.begin(at: service.time) }
    service.turn(of: loop, from: 2_100_000_000, lasting: 2000 * millisecond)
    service.at(5_000_000_000) { [service] in
      #expect(loop.suspension.end(at: service.time))
      service.semaphore.post()
    }
    service.turn(of: loop, from: 6_000_000_000, lasting: 300 * millisecond)
    #expect(ended(service.run()).map(\.began) == [6000])
  }

  /// A job of several tasks: the second one is late.
  @Test func pieceOfWorkCountsFromItsOwnBeginning() {
    let work = Pieces()
    let loop = service.loop("pool", work: work)
    service.turn(of: loop, from: 2_000_000_000, lasting: 1100 * millisecond)
    service.at(2_000_000_001) { work.set(.certainPiece(1)) }
    service.at(2_200_000_000) { work.set(.certainPiece(2)) }
    service.at(2_900_000_000) { work.set(.certainPiece(3)) }
    let stalls = ended(service.run())
    // Checks meet a piece and its end within an eighth of the threshold.
    #expect(stalls.count == 1, "\(stalls)")
    #expect(stalls.first.map { (2200...2232).contains($0.began) && (600...700).contains($0.duration) } == true)
  }

  @Test func unansweredHeartbeatIsAStall() {
    let beats = Beats()
    let loop = service.loop(
      "queue",
      heartbeat: { pulse in
        beats.pulse = pulse; return beats
      })
    loop.activity = { _ in .inCall(.lock) }
    beats.now = { [service] in service.time }
    // Answers at once, but for two seconds.
    beats.willBeat = { [service] time in
      let isBlocked = time >= 4_000_000_000 && time < 5_000_000_000
      let answer = isBlocked ? 6_000_000_000 : time + 1_000_000
      service.later(answer) {
        loop.pulse.turn(.beforeSources, stamp: answer.nanoseconds)
        loop.pulse.end(loop.pulse.word)
      }
    }
    service.at(8_000_000_000) {}
    let stalls = ended(service.run())
    #expect(
      stalls.map(\.duration) == [2000] && stalls.first?.began == 4000 && stalls.first?.cause == .lock, "\(stalls)")
  }

  @Test func busyLoopThatTurnsIsNotReported() {
    let loop = service.loop("main")
    var time: Instant = 2_000_000_000
    for round in 0..<500 as Range<UInt64> {
      let length = (round * 37 % 240 + 5) * millisecond
      service.turn(of: loop, from: time, lasting: length)
      time += length + 1000
    }
    #expect(service.run().isEmpty)
  }
}

/// Pieces of a job, as the test sets them.
private final class Pieces: TurnWork {
  private let current = Mutex(TurnPart.whole)
  func set(_ part: TurnPart) { current.withLock { $0 = part } }

  var part: TurnPart { current.withLock { $0 } }
  let leastThreshold: UInt64 = 0
  let hasPieces = true
  let hasWaitingWork = false
  var task: Report.TaskState? { nil }
}

/// Heartbeats that the test answers.
private final class Beats: HeartbeatSource, @unchecked Sendable {  // All of it is on the test's thread.
  var pulse: Pulse?
  var now: () -> Instant = { .zero }
  var willBeat: (Instant) -> Void = { _ in }

  let isBeating = true
  let server = LoopServer.thread(1)

  func beat() {
    let time = now()
    pulse?.turn(.heartbeat, stamp: time.nanoseconds)
    willBeat(time)
  }
}
