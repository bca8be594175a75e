import TestSupport
import Testing

@testable import StallDetection

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
    var reading = Reading(
      now: Instant(now), word: TurnWord(phase: .afterWaiting, stamp: began), turnBegan: Instant(began))
    (reading.part, reading.leastThreshold) = (part, least)
    return reading
  }

  /// When to check again; nil if something else is due.
  private mutating func nextCheck(_ reading: Reading) -> UInt64? {
    if case .checkAgain(let time) = decide(reading) { time.nanoseconds } else { nil }
  }

  /// Checks a turn when it is due, until it is late; nil if it never is.
  ///
  /// `piece` says which piece runs at a time.
  private mutating func late(from begin: UInt64, until end: UInt64 = 100_000, _ piece: (UInt64) -> UInt64) -> UInt64? {
    var now = begin
    while now < end {
      guard let next = nextCheck(turn(at: now, since: 1000, .piece(piece(now)))) else { return now }
      now = next
    }
    return nil
  }

  /// Two that take turns, in the rhythm of the checks and in others; one of them may be short.
  @Test(arguments: [(31, 31), (15, 16), (30, 1), (31, 1), (60, 2), (10, 2), (124, 1)])
  func piecesThatTakeTurnsAreNeverLate(first: UInt64, second: UInt64) {
    var copy = self
    #expect(copy.late(from: 1001) { $0 % (first + second) < first ? 1 : 2 } == nil)
  }

  /// Another piece may have hidden between them.
  @Test mutating func checksThatComeLateConfirmNothing() {
    for time in stride(from: UInt64(1001), to: 10_000, by: 20) {
      #expect(nextCheck(turn(at: time, since: 1000, .piece(1))) != nil, "\(time)")
    }
  }

  /// Each change is noticed, so few checks are needed, and they may come late.
  @Test mutating func certainPieceIsLateAtTheThreshold() {
    var checks = 0
    var now: UInt64 = 1001
    while let next = nextCheck(turn(at: now, since: 1000, .certainPiece(1))) {
      #expect(next > now + 1, "as often as if many checks were needed")
      (now, checks) = (next, checks + 1)
    }
    #expect(now == 1251)
    #expect(checks < 20)
  }

  /// A piece counts from the check that meets it: so that is not to come a threshold late.
  @Test mutating func pieceIsMetWithinAnEighthOfTheThreshold() throws {
    let idle = Reading(now: 1001, word: TurnWord(phase: .idle, stamp: 900), turnBegan: 0).withPieces
    #expect(try #require(nextCheck(idle)) <= 1001 + 31)
    let whole = turn(at: 1033, since: 1032, .whole).withPieces
    #expect(try #require(nextCheck(whole)) <= 1033 + 31)
    // At the same time for all threads.
    let other = try #require(nextCheck(turn(at: 1035, since: 1032, .whole).withPieces))
    #expect(nextCheck(turn(at: 1040, since: 1032, .whole).withPieces) == other)
    // But it is late at the deadline.
    #expect(nextCheck(turn(at: 1281, since: 1032, .whole).withPieces) == 1282)
    #expect(decide(turn(at: 1282, since: 1032, .whole).withPieces) == .late(whole.word))
  }

  @Test mutating func certainPieceCountsFromWhenItWasFirstSeen() {
    #expect(nextCheck(turn(at: 1100, since: 1000, .certainPiece(1))) != nil)
    #expect(nextCheck(turn(at: 1200, since: 1000, .certainPiece(2))) != nil)
    #expect(nextCheck(turn(at: 1449, since: 1000, .certainPiece(2))) == 1450)
    #expect(nextCheck(turn(at: 1450, since: 1000, .certainPiece(2))) == nil)
  }

  @Test mutating func turnOfShortPiecesIsNeverLate() {
    for time in stride(from: UInt64(1000), to: 10_000, by: 30) {
      let next = nextCheck(turn(at: time, since: 1000, .piece(time)))
      #expect(next.map { (time + 15...time + 31).contains($0) } == true)
    }
  }

  @Test mutating func pieceCountsFromWhenItWasFirstSeen() {
    _ = decide(turn(at: 1001, since: 1000, .piece(1)))
    #expect(late(from: 1200) { _ in 2 } == 1450)
    #expect(monitor.checkedTurn.start == 1200)
  }

  /// Nobody has seen when it began.
  @Test mutating func pieceThatIsFirstSeenInALongTurnIsNotLate() {
    #expect(nextCheck(turn(at: 9000, since: 1000, .piece(1))) != nil)
    #expect(monitor.lateTurn(turn(at: 9400, since: 1000, .piece(2))) == nil)
    #expect(monitor.lateTurn(turn(at: 9400, since: 1000, .piece(1)))?.start == 9000)
  }

  @Test mutating func stallOfAPieceEndsWhenItWasLastSeen() {
    #expect(late(from: 1001) { _ in 1 } == 1251)
    monitor.follow(monitor.checkedTurn, foundAt: 1251, sampling: 100)
    #expect(nextCheck(turn(at: 1300, since: 1000, .piece(1))) != nil)
    #expect(decide(turn(at: 1331, since: 1000, .piece(2))) == .ended(at: 1300))
  }

  /// A later task may have the number or the address of the one before it.
  @Test mutating func pieceAfterAStallCountsFromWhenItIsMet() {
    #expect(late(from: 1001) { _ in 1 } == 1251)
    monitor.follow(monitor.checkedTurn, foundAt: 1251, sampling: 100)
    #expect(decide(turn(at: 1331, since: 1000, .piece(2))) == .ended(at: 1251))
    monitor.stopFollowing()
    #expect(nextCheck(turn(at: 1332, since: 1000, .piece(1))) != nil)
    #expect(monitor.lateTurn(turn(at: 1400, since: 1000, .piece(1))) == nil)
  }

  @Test mutating func turnOfOnePieceEndsWhenItEnds() {
    _ = decide(turn(at: 1250, since: 1000, .whole))
    monitor.follow(monitor.checkedTurn, foundAt: 1250, sampling: 100)
    var reading = turn(at: 1340, since: 1335, .piece(7))
    reading.turnEnd = 1330
    #expect(decide(reading) == .ended(at: 1330))
  }

  /// It may have continued since the last check.
  @Test mutating func stallWhoseEndIsNoticedLateEndsWhenItWasLastSeen() {
    _ = decide(turn(at: 1250, since: 1000, .whole))
    monitor.follow(monitor.checkedTurn, foundAt: 1250, sampling: 100)
    var reading = turn(at: 1300, since: 1000, .whole)
    reading.hasExactEnd = false
    #expect(decide(reading) == .checkAgain(at: 1331))
    (reading.now, reading.turnEnd) = (1331, 1331)
    #expect(decide(reading) == .ended(at: 1300))
  }

  @Test mutating func turnOfLowPriorityHasItsOwnThreshold() {
    #expect(decide(turn(at: 1001, since: 1000, .whole, least: 1000)) == .checkAgain(at: 2000))
    #expect(monitor.lateTurn(turn(at: 1999, since: 1000, .whole, least: 1000)) == nil)
    #expect(
      decide(turn(at: 2000, since: 1000, .whole, least: 1000)) == .late(TurnWord(phase: .afterWaiting, stamp: 1000)))
    #expect(decide(turn(at: 2250, since: 2000, .whole)) == .late(TurnWord(phase: .afterWaiting, stamp: 2000)))
  }
}

extension TurnMonitor.Reading {
  /// The same of a loop whose turns may have pieces.
  fileprivate var withPieces: Self {
    var reading = self
    reading.hasPieces = true
    return reading
  }
}
