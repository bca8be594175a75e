import LoopEngine

/// Lines that wait for names, unit by unit: whose turn it is, and who has to do without for a while.
struct NamingLanes {
  private struct Lane {
    /// Numbers of lines, first in, first out.
    var queued: ArraySlice<UInt64> = []
    /// How many are with the worker.
    var sent = 0
    var count = 0
  }

  /// A lane whose lines the worker had to be killed for.
  private struct Penalty {
    var times: Int
    var until: Loop.Instant
  }

  private var lanes: [String: Lane] = [:]
  /// Those with queued lines, in the order of their turns.
  private var turns: ArraySlice<String> = []
  private var penalties: [String: Penalty] = [:]
  /// Those whose own files take long, and until when: their lines are the patient worker's.
  private var slow: [String: Loop.Instant] = [:]
  private(set) var count = 0

  /// Lines that may wait, of all and of one; one that has few may always have these.
  private static let limit = 2000
  private static let laneLimit = 500
  private static let least = 64
  /// Lines of one lane that may be with the worker.
  private static let share = 8
  private static let penaltyLimit = 4096
  private static let longestPenalty = 60
  private static let penaltyMemory: Duration = .seconds(600)
  private static let slowTime: Duration = .seconds(600)

  /// Whether one more line may wait.
  func hasRoom(_ lane: String) -> Bool {
    let own = lanes[lane]?.count ?? 0
    return own < Self.least || (count < Self.limit && own < Self.laneLimit)
  }

  mutating func add(_ number: UInt64, to lane: String) {
    if lanes[lane, default: Lane()].queued.isEmpty { turns.append(lane) }
    lanes[lane, default: Lane()].queued.append(number)
    lanes[lane, default: Lane()].count += 1
    count += 1
  }

  /// The next line to be sent to the patient worker, or to the other one; it counts as sent.
  mutating func next(isPatient: Bool) -> (number: UInt64, lane: String)? {
    if isPatient, slow.isEmpty { return nil }
    for _ in 0..<turns.count {
      let name = turns.removeFirst()
      guard var lane = lanes[name], let number = lane.queued.first else { continue }
      guard lane.sent < Self.share, isSlow(name) == isPatient else {
        turns.append(name)
        continue
      }
      lane.queued.removeFirst()
      lane.sent += 1
      lanes[name] = lane
      if !lane.queued.isEmpty { turns.append(name) }
      return (number, name)
    }
    return nil
  }

  /// A line that was sent is not with the worker any more.
  mutating func didReturn(to name: String) {
    lanes[name]?.sent -= 1
    release(name)
  }

  /// Lines that were sent have to be sent again, before the others.
  mutating func sendAgain(_ numbers: [UInt64], of name: String) {
    guard !numbers.isEmpty, var lane = lanes[name] else { return }
    if lane.queued.isEmpty { turns.append(name) }
    lane.queued = numbers + lane.queued
    lane.sent -= numbers.count
    lanes[name] = lane
  }

  /// A line waits no more.
  mutating func didSettle(_ name: String) {
    lanes[name]?.count -= 1
    count -= 1
    release(name)
  }

  private mutating func release(_ name: String) {
    // What has been settled meanwhile stays in its queue until its turn.
    guard let lane = lanes[name], lane.count <= 0, lane.sent <= 0, lane.queued.isEmpty else { return }
    lanes[name] = nil
  }

  // MARK: Lanes that take long

  /// Sends the lane's lines to the patient worker for a while.
  mutating func slowDown(_ lane: String) {
    let now = Loop.Instant.now
    if slow.count >= Self.penaltyLimit { slow = slow.filter { $0.value > now } }
    slow[lane] = now.advanced(by: Self.slowTime)
  }

  func isSlow(_ lane: String) -> Bool { !slow.isEmpty && (slow[lane].map { $0 > .now } ?? false) }

  // MARK: Penalties

  /// For how long the lane's lines go without names: longer each time.
  mutating func punish(_ lane: String) -> Duration {
    let now = Loop.Instant.now
    if penalties.count >= Self.penaltyLimit { penalties = penalties.filter { $0.value.until > now } }
    let old = penalties[lane].flatMap { $0.until.duration(to: now) < Self.penaltyMemory ? $0.times : nil } ?? 0
    let time = Duration.seconds(min(1 << min(old, 6), Self.longestPenalty))
    penalties[lane] = Penalty(times: old + 1, until: now.advanced(by: time))
    return time
  }

  func isPunished(_ lane: String) -> Bool { !penalties.isEmpty && (penalties[lane].map { $0.until > .now } ?? false) }
}
