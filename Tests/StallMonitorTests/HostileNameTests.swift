import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

/// Hosts whose files are called what no file should be called, or are gone.
@Suite(.serialized, .takingTurns) struct HostileNameTests {
  /// Runs a copy of the victim under a name, which is given as printf(1) takes it.
  private func run(named name: String, remove: Bool = false) throws -> [WrittenReport] {
    let fixtures = try SymbolFixtures()
    let victim = try Victim.Build.debug.executable("StallVictim").path
    // The file is removed once it runs.
    let removal =
      remove ? "for i in $(seq 100); do [ /proc/$!/exe -ef \"$name\" ] && break; sleep 0.01; done; rm \"$name\"" : ":"
    let lines = try fixtures.run([
      "sh", "-c",
      """
      name="$(printf '\(name)')" && cp '\(victim)' "$name" &&
      { STALLMONITOR_THRESHOLD=100ms ./"$name" sleep \(TestMachine.isEmulated ? 8000 : 1200) 2>/dev/null & } && \(removal); wait
      """,
    ])
    try ReportSchema.expectValid(Data(lines.utf8))
    return try lines.split(separator: "\n").map { try WrittenReport(Data($0.utf8)) }
  }

  @Test(arguments: [
    #"two\nlines"#, #"\"quotes\" and \\\\ back"#, "gone (deleted)", #"\377\376 not text"#, #"tab\t\033[2J"#,
  ])
  func hostOfThatNameReportsAsAnyOther(name: String) throws {
    let reports = try run(named: name)
    #expect(reports.map(\.event).contains("stall.ended"))
    // The first names take longer than a first report waits for them on an emulated processor.
    for report in reports where !TestMachine.isEmulated || report.event == "stall.ended" {
      #expect(report.culprit == "StallVictim.blockBySleeping() -> Swift.Int32", "\(name)")
      // Names have a time budget: on a busy machine the first report may lack lines.
      #expect(report.culpritFrame?["line"] != nil || report.event == "stall.started")
    }
  }

  @Test func executableThatIsGoneHasItsNames() throws {
    let reports = try run(named: "service", remove: true)
    #expect(reports.map(\.event).contains("stall.ended"))
    #expect(reports.last?.culprit == "StallVictim.blockBySleeping() -> Swift.Int32")
  }
}
