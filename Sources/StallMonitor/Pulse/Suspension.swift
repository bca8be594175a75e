import StallDetection
import Synchronization

/// Whether turns are ignored for now: the service knows that they are slow, or an agent has switched the watch off.
///
/// A monitor has one for all its loops, and each loop has one within that. The time of a pause is no turn's.
final class Suspension: Sendable {
  private let outer: Suspension?
  // Separate: a pause or resumption by the service does not change what the agent has requested.
  private let service = PauseCount()
  private let agent = PauseCount()

  /// A suspension of all loops, or of one loop, which those of `outer` hold for, too.
  init(within outer: Suspension? = nil) { self.outer = outer }

  /// Ignores turns until as many calls of ``end(at:)`` have been made.
  func begin(at now: Instant = .now()) { service.begin(at: now) }

  /// Takes one `begin` back.
  ///
  /// False if there is none.
  func end(at now: Instant = .now()) -> Bool { service.end(at: now) }

  /// Ignores turns until ``switchOn()``, also if the service pauses and resumes.
  func switchOff() { if !agent.isActive { agent.begin(at: .now()) } }

  /// Takes ``switchOff()`` back.
  func switchOn() { _ = agent.end(at: .now()) }

  /// Whether turns are ignored now.
  var isActive: Bool { service.isActive || agent.isActive || outer?.isActive == true }

  /// For how long turns were ignored, in nanoseconds, without a pause that lasts; the service's and the agent's count each.
  var paused: UInt64 { service.ended + agent.ended + (outer?.paused ?? 0) }

  /// The same with a pause that lasts, until `now`; rather too long if it ends in this moment.
  func paused(until now: Instant) -> UInt64 {
    service.lasting(until: now) + agent.lasting(until: now) + (outer?.paused(until: now) ?? 0) + service.ended
      + agent.ended
  }
}

/// Pauses that may overlap, from any threads, and how long there was one.
private final class PauseCount: Sendable {
  private let depth = Atomic<Int>(0)
  // When the first of those that last began, and how long there was one before, in nanoseconds.
  private let began = Atomic<UInt64>(0)
  private let total = Atomic<UInt64>(0)

  var isActive: Bool { depth.load(ordering: .acquiring) > 0 }

  func begin(at now: Instant) {
    // After the count: of several, the first one's time counts, and nobody reads it before that one has ended.
    if depth.add(1, ordering: .sequentiallyConsistent).oldValue == 0 {
      began.store(now.nanoseconds, ordering: .releasing)
    }
  }

  /// False if there is none.
  func end(at now: Instant) -> Bool {
    var current = depth.load(ordering: .acquiring)
    while current > 0 {
      // Before the count: a thread that sees no pause left also sees its time.
      let time = current == 1 ? now.since(Instant(began.load(ordering: .acquiring))) : 0
      total.add(time, ordering: .relaxed)
      let (exchanged, original) = depth.compareExchange(
        expected: current, desired: current - 1, ordering: .sequentiallyConsistent)
      if exchanged { return true }
      total.subtract(time, ordering: .relaxed)
      current = original
    }
    return false
  }

  /// How long there was a pause, without one that lasts.
  var ended: UInt64 { total.load(ordering: .relaxed) }

  /// How long the one has been that lasts; 0 without any.
  func lasting(until now: Instant) -> UInt64 { isActive ? now.since(Instant(began.load(ordering: .acquiring))) : 0 }
}
