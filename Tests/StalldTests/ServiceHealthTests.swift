import Foundation
import TestSupport
import Testing

extension SystemdTests {
  /// Services whose health systemd asks for (`WatchdogSec=`), on a machine that has no CPU for them.
  @Suite struct ServiceHealth {
    private static let runs = LongForm.isOn ? 20 : 3

    private static func unit(_ scenario: String) -> String {
      """
      [Service]
      WatchdogSec=2
      Environment=STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG=true
      ExecStart=\(Installation.programs)/StallVictim \(scenario)
      """
    }

    /// A service that has to wait for a CPU is not killed for that; one that blocks is.
    @Test func busyMachineKillsNoService() throws {
      // Services of their own: the loops of one would have no more than its share together.
      let loops = (1...16).map { "busy@\($0)" }.joined(separator: " ")
      let (machine, _) = try AgentUnit.boot([
        "etc/systemd/system/busy@.service": "[Service]\nExecStart=/bin/sh -c 'while :; do :; done'\n",
        "etc/systemd/system/computes@.service": Self.unit("compute 5000"),
        "etc/systemd/system/sleeps.service": Self.unit("c-sleep 20000"),
      ])
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      let names = (1...Self.runs).map { "computes@\($0)" }
      #expect(try machine.shell("systemctl start \(loops) sleeps").status == 0)
      for name in names {
        #expect(try machine.shell("systemctl start \(name)").status == 0)
        try waitUntil { try machine.property("ActiveState", of: name) != "active" }
        let journal = try machine.journal(of: name)
        #expect(try machine.property("Result", of: name) == "success", "\(journal)")
        // Otherwise it was not what it is to be.
        #expect(journal.contains(#""cause":"starved""#))
      }
      #expect(try machine.property("Result", of: "sleeps") == "watchdog")
      #expect(try machine.shell("systemctl stop \(loops)").status == 0)
    }
  }
}
