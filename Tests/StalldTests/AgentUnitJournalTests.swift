import Foundation
import TestSupport
import Testing

@testable import stalld

extension SystemdTests.AgentUnit {
  /// Reports to the journal by the unit's standard output, while journald and its sockets go and come back.
  @Test func standardOutputFindsTheJournalAgain() throws {
    let (machine, _) = try Self.boot(["etc/stalld/stalld.yaml": "outputs: [{type: stdout}]\n"])
    defer { #expect(machine.halt() == 0, "nothing is left behind") }
    let deliver = "\(Self.host) deliver \(Self.socket)"
    #expect(try machine.shell("\(deliver) 5").output == "delivered 5 over 1 connections\n")
    #expect(try machine.reports(of: "stalld").count == 5)
    let process = try machine.property("MainPID", of: "stalld")

    #expect(try machine.stopJournal().status == 0)
    // The first five are known to the agent.
    let run = "systemd-run --quiet --property StandardOutput=file:/run/delivered"
    #expect(try machine.shell("\(run) \(deliver) 8").status == 0)
    try waitUntil { try machine.shell("stalld status").output.contains("stdout not accepting writes") }
    #expect(try machine.shell("cat /run/delivered").output == "")
    #expect(try machine.startJournal().status == 0)
    try waitUntil { try machine.shell("cat /run/delivered").output.hasPrefix("delivered 8 ") }
    // What was said before the end of journald is in its file, too.
    try waitUntil { try machine.reports(of: "stalld").count >= 8 }
    let ids = try machine.reports(of: "stalld").map(\.id)
    #expect(ids == (1...8).map { String(repeating: "0", count: 31) + "\($0)" })
    #expect(try machine.property("MainPID", of: "stalld") == process, "the same process all the while")
  }
}
