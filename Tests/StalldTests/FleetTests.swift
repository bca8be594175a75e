import Foundation
import TestSupport
import Testing

/// The queries for a fleet, on the engines that they are for, over two weeks of 1000 hosts.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct FleetTests {
  @Test(
    "the ten questions of a stall review have the right answers on DuckDB",
    .enabled(if: Judge.python != nil, "the duckdb wheel is missing: `make test` installs it"))
  func duckDB() throws { try check("duckdb", python: #require(Judge.python)) }

  @Test(
    "the ten questions of a stall review have the right answers on ClickHouse",
    .enabled(if: Judge.clickHouse != nil, "the chdb wheel is missing: `make test-fleet` installs it"))
  func clickHouse() throws { try check("clickhouse", python: #require(Judge.clickHouse)) }

  @Test("the lines of the fleet are reports")
  func linesAreReports() throws {
    let scratch = try ScratchDirectory()
    let file = try fleet(in: scratch)
    // All are made alike, so some of each kind will do.
    let some = try ["started", "ongoing", "ended", "suppressed", "fatal"].flatMap { event in
      try Program.run("/bin/grep", ["--max-count=40", "\"stall.\(event)\"", file]).output.split(separator: "\n").map(
        String.init)
    }
    #expect(some.count > 160)
    #expect(try ReportSchema.faults(in: Data(some.joined(separator: "\n").utf8)) == "")
  }

  private func check(_ engine: String, python: String) throws {
    let scratch = try ScratchDirectory()
    let judged = try Judge.run("check-fleet.py", [engine, fleet(in: scratch)], python: python)
    #expect(judged.status == 0 && judged.output.isEmpty, "\(judged.output)\(judged.errors)")
  }

  private func fleet(in scratch: ScratchDirectory) throws -> String {
    let file = scratch.url.appending(path: "stalls.jsonl").path
    let script = Repository.file("Tests/Support/generate-reports.py").path
    let made = try Program.run("/bin/sh", ["-c", #"exec /usr/bin/python3 "$0" fleet > "$1""#, script, file])
    try #require(made.status == 0, "\(made.errors)")
    return file
  }
}
