import TestSupport
import Testing

@testable import stalld

/// An agent that users share who do not trust each other, by its shipped units under a booted systemd.
@Suite(
  .serialized, .takingTurns(aloneBecause: "what users wait for is compared with what they wait for in peace"),
  .onSharedMachine, .timeLimit(.minutes(4)),
  .enabled(if: Machine.obstacle == nil, Comment(rawValue: "skipped: \(Machine.obstacle ?? "")")))
struct SharedAgentTests {
  @Test("the unit limits the memory of all its processes")
  func unitLimitsMemory() throws {
    #expect(Int(try SharedMachine.current.machine.property("MemoryMax", of: "stalld")) != nil, "it has no MemoryMax=")
  }
}
