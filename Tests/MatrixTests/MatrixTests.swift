import Matrix
import TestSupport
import Testing

/// What a process does and gets, watched and unwatched: the same.
///
/// Of the transfers a third; `make matrix` runs all of them, several times. Nothing here is judged by time.
@Suite(.takingTurns)
enum MatrixTests {
  /// Large transfers inside the kernel, which no monitor may cut short.
  @Suite struct Transfers {
    @Test(arguments: Scenario.someTransfers)
    func transferIsWhole(scenario: Scenario) async throws {
      try expectSame(await Comparison.run(scenario))
    }
  }

  /// Processes with unusual descriptors, stacks, signals, limits, filters, children and output.
  @Suite struct HostileHosts {
    @Test(arguments: Scenario.hosts)
    func hostNoticesNothing(scenario: Scenario) async throws {
      try expectSame(await Comparison.run(scenario))
    }
  }

  /// A stall for whose report there was never memory.
  @Test static func whatCannotBeReportedIsLogged() throws {
    let run = try Program.run(
      MatrixHost.program.get().path, ["host", "rlimit-as-until-the-end", "watched"],
      environment: ["STALLMONITOR_THRESHOLD": "20ms", "STALLMONITOR_SINK": "stdout"])
    #expect(run.status == 0 && !run.output.contains("stall."))
    #expect(run.errors.contains("stalls were not reported (loops: 1): "))
  }

  /// Every scenario that the host has is run.
  @Test static func matricesAreComplete() throws {
    let names = Scenario.transferNames.map { "transfer \($0)" } + Scenario.hosts.map { "host \($0)" }
    #expect(Set(try MatrixHost.list()) == Set(names))
  }

  private static func expectSame(_ comparison: Comparison) {
    #expect(comparison.differences.isEmpty, "\(comparison.differences.joined(separator: "\n"))")
    guard comparison.differences.isEmpty else { return }
    #expect(comparison.isSound, "The monitor reported no stall.")
  }
}
