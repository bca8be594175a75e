import Foundation
import TestSupport
import Testing

@testable import stalld

extension SystemdTests.AgentUnit {
  /// The agent's directories are removed, and made again by the remedy of the documentation.
  @Test func directoriesThatWereMadeAgainAreUsed() throws {
    let operating = try String(contentsOf: Repository.file("Documentation/Operating.md"), encoding: .utf8)
    let row = try #require(
      operating.split(separator: "\n").first { $0.hasPrefix("| `file /var/log/stalld/stalls.jsonl: …`") })
    let remedy = try #require(row.split(separator: "`").map(String.init).first { $0.hasPrefix("systemd-tmpfiles ") })
    let (machine, _) = try Self.boot()
    defer { #expect(machine.halt() == 0, "nothing is left behind") }
    let deliver = "\(Self.host) deliver \(Self.socket)"
    #expect(try machine.shell("\(deliver) 5").output == "delivered 5 over 1 connections\n")
    let process = try machine.property("MainPID", of: "stalld")
    func restarts() throws -> Int? { Int(try machine.property("NRestarts", of: "stalld")) }

    // A restart is of no use yet.
    #expect(try machine.shell("rm -rf /var/log/stalld").status == 0)
    #expect(
      try machine.shell("systemd-run --quiet --property StandardOutput=file:/run/delivered \(deliver) 30").status == 0)
    try waitUntil {
      try machine.journal(of: "stalld").contains("stalls.jsonl: No such file or directory; lines are kept")
    }
    #expect(try machine.property("MainPID", of: "stalld") == process)
    #expect(try machine.shell("cat /run/delivered").output == "")

    let made = try machine.shell(remedy)
    #expect(made.status == 0 && made.errors == "", "\(remedy): \(made.errors)")
    try waitUntil { try machine.shell("cat /run/delivered").output.hasPrefix("delivered 30 ") }
    #expect(try restarts() == 1)
    let numbers = try Self.reports(machine).compactMap { try Int(WrittenReport($0).id, radix: 16) }
    #expect(Set(numbers).isSuperset(of: 6...30), "the first five were in the file that was removed")
    #expect(Set(numbers).count == numbers.count)
    let replaced = "the directory /var/log/stalld was replaced, and this process cannot write to the new one"
    var journal = try machine.journal(of: "stalld")
    #expect(journal.ranges(of: replaced).count == 1, "\(journal)")
    #expect(journal.contains("the agent ends, and its service manager starts it again"))

    // The directory of details: a reload finds it.
    #expect(try machine.shell("rm -rf /var/lib/stalld && \(remedy)").status == 0)
    // The agent ends a second after the reload. If systemd sees that first, the next reload is the one that succeeds.
    try waitUntil { try machine.shell("systemctl reload stalld").status == 0 }
    try waitUntil { try restarts() == 2 && machine.property("StatusText", of: "stalld") == "Serving" }
    #expect(try machine.shell("stat -c '%U %a' /var/lib/stalld/stalls").output == "stalld 750\n")
    journal = try machine.journal(of: "stalld")
    #expect(journal.ranges(of: "/var/lib/stalld/stalls was replaced").count == 1, "\(journal)")

    #expect(try machine.shell("\(deliver) 40").output == "delivered 40 over 1 connections\n")
    #expect(try Self.reports(machine).count >= 35)
    #expect(try restarts() == 2)
  }
}
