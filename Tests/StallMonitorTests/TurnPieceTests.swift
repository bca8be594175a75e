import Testing

@testable import StallMonitor

/// What the watchdog decides about turns that consist of pieces, or have a limit of their own, in virtual time.
struct TurnPieceTests {
  private static let threshold: UInt64 = 250
  private var monitor = TurnMonitor(threshold: threshold)

  private typealias Reading = TurnMonitor.Reading

  private mutating func decide(_ reading: Reading) -> TurnMonitor.Decision {
    monitor.check(reading, frozen: 0).decision
  }

  /// A turn with a piece of work in it.
  private func turn(at now: UInt64, since began: UInt64, _ part: TurnPart, least: UInt64 = 0) -> Reading {
    var reading = Reading(now: now, word: Pulse.Word(phase: .afterWaiting, stamp: began), turnBegan: began)
    (reading.part, reading.leastThreshold) = (part, least)
    return reading
  }

  @Test mutating func turnOfShortPiecesIsNeverLate() {
    for time in stride(from: UInt64(1000), to: 10_000, by: 30) {
      let decision = decide(turn(at: time, since: 1000, .piece(time)))
      #expect(decision == .checkAgain(at: time + Self.threshold / 8))
    }
  }

  @Test mutating func pieceCountsFromWhenItWasFirstSeen() {
    _ = decide(turn(at: 1001, since: 1000, .piece(1)))
    #expect(decide(turn(at: 1200, since: 1000, .piece(2))) == .checkAgain(at: 1231))
    #expect(decide(turn(at: 1449, since: 1000, .piece(2))) == .checkAgain(at: 1450))
    #expect(decide(turn(at: 1450, since: 1000, .piece(2))) == .late(Pulse.Word(phase: .afterWaiting, stamp: 1000)))
    #expect(monitor.checkedTurn(resumedAt: 0).start == 1200)
  }

  /// Nobody has seen when it began.
  @Test mutating func pieceThatIsFirstSeenInALongTurnIsNotLate() {
    #expect(decide(turn(at: 9000, since: 1000, .piece(1))) == .checkAgain(at: 9031))
    #expect(monitor.lateTurn(turn(at: 9400, since: 1000, .piece(2))) == nil)
    #expect(monitor.lateTurn(turn(at: 9400, since: 1000, .piece(1)))?.start == 9000)
  }

  @Test mutating func stallOfAPieceEndsWhenItWasLastSeen() {
    _ = decide(turn(at: 1001, since: 1000, .piece(1)))
    _ = decide(turn(at: 1251, since: 1000, .piece(1)))
    monitor.follow(monitor.checkedTurn(resumedAt: 0), foundAt: 1251, sampling: 100)
    #expect(decide(turn(at: 1300, since: 1000, .piece(1))) == .checkAgain(at: 1331))
    #expect(decide(turn(at: 1331, since: 1000, .piece(2))) == .ended(at: 1300))
  }

  @Test mutating func turnOfOnePieceEndsWhenItEnds() {
    _ = decide(turn(at: 1250, since: 1000, .whole))
    monitor.follow(monitor.checkedTurn(resumedAt: 0), foundAt: 1250, sampling: 100)
    var reading = turn(at: 1340, since: 1335, .piece(7))
    reading.turnEnd = 1330
    #expect(decide(reading) == .ended(at: 1330))
  }

  @Test mutating func turnOfLowPriorityHasItsOwnThreshold() {
    #expect(decide(turn(at: 1001, since: 1000, .whole, least: 1000)) == .checkAgain(at: 2000))
    #expect(monitor.lateTurn(turn(at: 1999, since: 1000, .whole, least: 1000)) == nil)
    #expect(
      decide(turn(at: 2000, since: 1000, .whole, least: 1000)) == .late(Pulse.Word(phase: .afterWaiting, stamp: 1000)))
    #expect(decide(turn(at: 2250, since: 2000, .whole)) == .late(Pulse.Word(phase: .afterWaiting, stamp: 2000)))
  }
}
