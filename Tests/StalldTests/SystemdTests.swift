import Foundation
import TestSupport
import Testing

/// The unit under a real systemd, with the release build.
///
/// Needs root, systemd-nspawn and mounts: inside a container without privileges there is no way to boot a systemd.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: Machine.obstacle == nil, Comment(rawValue: "skipped: \(Machine.obstacle ?? "")")))
struct SystemdTests {
  @Test func unitServesAndStops() throws {
    let files = try Installation.make(enabling: ["multi-user.target.wants/stalld.service"])
    let unit = try String(contentsOf: UnitFileTests.unit, encoding: .utf8)
    // The same service, except that its words do not reach systemd: shows that READY=1 alone makes the unit active.
    try Self.write(
      unit.replacing(
        "ExecStart=/usr/bin/stalld run",
        with:
          "TimeoutStartSec=1s\nExecStart=/usr/bin/env --unset=NOTIFY_SOCKET /usr/bin/stalld run --output stdout --socket /run/stalld/mute.sock --control /run/stalld/mute-control.sock"
      ),
      to: "etc/systemd/system/mute.service", in: files)
    let machine = try Machine(files: files.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }

    // The link in multi-user.target.wants started it.
    try waitUntil { try ["active", "failed"].contains(machine.property("ActiveState", of: "stalld")) }
    let status = try machine.run("/usr/bin/systemctl", "status", "--no-pager", "stalld").output
    #expect(status.contains("Active: active (running)"))
    #expect(status.contains("Status: \"Serving\""))
    #expect(try machine.property("Type", of: "stalld") == "notify")
    #expect(try machine.property("NRestarts", of: "stalld") == "0")
    // A user of its own (sysusers.d).
    #expect(try #require(Int(machine.property("UID", of: "stalld"))) > 0)

    #expect(try machine.run("/usr/bin/systemctl", "start", "mute").status != 0)
    #expect(try machine.journal(of: "mute").contains("start operation timed out"))

    #expect(try machine.run("/usr/bin/systemctl", "stop", "stalld").status == 0)
    #expect(try machine.property("ActiveState", of: "stalld") == "inactive")
    #expect(try machine.property("Result", of: "stalld") == "success")
    #expect(try machine.property("ExecMainCode", of: "stalld") == "1", "CLD_EXITED: it ended by itself")
    #expect(try machine.property("ExecMainStatus", of: "stalld") == "0")
    #expect(try machine.property("KillSignal", of: "stalld") == "15")
    let journal = try machine.journal(of: "stalld")
    #expect(!journal.contains("timed out"), "SIGTERM was enough")
    #expect(journal.contains("Deactivated successfully"))
    #expect(try machine.journal(of: "stalld", priority: "warning") == "")
  }

  /// The monitor under the hardening that operators put on their services: it does its work, and is no reason to die.
  @Test func watchedHostWorksUnderTheUnitsHardening() throws {
    let files = try Installation.make(enabling: ["multi-user.target.wants/stalld.service"])
    let hardened = try String(contentsOf: UnitFileTests.unit, encoding: .utf8)
      .replacing("ExecStart=/usr/bin/stalld run", with: "ExecStart=/usr/lib/stalld/StallVictim compute 900")
      .replacing("Type=notify", with: "Type=oneshot").replacing("Restart=always", with: "")
    try Self.write(hardened, to: "etc/systemd/system/victim.service", in: files)
    try Self.write(
      """
      [Service]
      Type=oneshot
      ExecStart=/usr/lib/stalld/StallVictim compute 900
      SystemCallFilter=@system-service
      """, to: "etc/systemd/system/filtered.service", in: files)
    let machine = try Machine(files: files.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }

    #expect(try machine.run("/usr/bin/systemctl", "start", "victim").status == 0)
    let lines = try machine.reports(of: "victim")
    let ended = try #require(lines.longestEnd)
    #expect(ended.text.contains("blockByComputing()"))
    #expect(ended.text.contains("main.swift"))
    let told = lines.filter { $0.id == ended.id && $0.event != "stall.ongoing" }
    #expect(told.map(\.event) == ["stall.started", "stall.ended"])
    #expect(told.named.allSatisfy { Self.tells($0, of: "blockByComputing()") })
    #expect(try machine.run("/usr/bin/systemctl", "start", "filtered").status == 0)
    #expect(try machine.reports(of: "filtered").longestEnd?.text.contains("blockByComputing()") == true)
  }

  /// Whether a line names a function, or has what it takes to name it later: the first line of a stall does not wait long for names.
  private static func tells(_ line: WrittenReport, of function: String) -> Bool {
    line.text.contains(function) || line.stack.contains { $0["build_id"] is String && $0["offset"] is String }
  }

  /// `WatchdogSec=`: a service whose main loop is dead is restarted, and its reports say why; one that is well is left alone.
  @Test func serviceWithADeadLoopIsRestarted() throws {
    let files = try Installation.make(enabling: ["multi-user.target.wants/stalld.service"])
    func unit(_ command: String, _ more: String = "") -> String {
      """
      [Service]
      ExecStart=\(command)
      WatchdogSec=2
      Environment=STALLMONITOR_SYSTEMD_WATCHDOG=true SWIFT_BACKTRACE=enable=no
      \(more)
      """
    }
    let victim = "/usr/lib/stalld/StallVictim"
    // The first process stalls for ever, the second one does not.
    try Self.write(
      unit(
        "/bin/sh -c 'if mkdir /run/once; then exec \(victim) stall-in-life 600000; else exec \(victim) idle 600000; fi'",
        "Restart=on-watchdog"),
      to: "etc/systemd/system/dead.service", in: files)
    try Self.write(unit("\(victim) idle 600000"), to: "etc/systemd/system/well.service", in: files)
    // Nothing is watched: no reason to kill it.
    try Self.write(
      unit("\(victim) idle 600000", "Environment=STALLMONITOR_ENABLED=false"),
      to: "etc/systemd/system/unwatched.service", in: files)
    // Without notifications: shows that systemd would kill the service.
    try Self.write(
      unit("\(victim) idle 600000", "Environment=STALLMONITOR_SYSTEMD_WATCHDOG=false"),
      to: "etc/systemd/system/silent.service", in: files)
    let machine = try Machine(files: files.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }

    #expect(try machine.run("/usr/bin/systemctl", "start", "dead", "well", "unwatched", "silent").status == 0)
    try waitUntil { try machine.property("NRestarts", of: "dead") != "0" }
    try waitUntil { try machine.journal(of: "dead").contains("stall.fatal") }
    let lines = try machine.reports(of: "dead")
    let fatal = try #require(lines.first { $0.event == "stall.fatal" })
    let told = lines.filter { $0.id == fatal.id }
    #expect(told.first?.event == "stall.started")
    #expect(told.named.allSatisfy { Self.tells($0, of: "blockBySleeping()") })
    for event in ["stall.ongoing", "stall.fatal"] {
      let line = try #require(told.last { $0.event == event }, "\(event)")
      #expect(line.text.contains("blockBySleeping()"))
    }
    try waitUntil { try machine.property("ActiveState", of: "silent") == "failed" }
    #expect(try machine.property("Result", of: "silent") == "watchdog")
    // Several times what systemd waits for.
    usleep(5_000_000)
    #expect(try machine.property("NRestarts", of: "dead") == "1", "the second process is well")
    for unit in ["dead", "well", "unwatched"] {
      #expect(try machine.property("ActiveState", of: unit) == "active", "\(unit)")
    }
    #expect(try machine.journal(of: "well").contains("stall.") == false)
    #expect(try machine.journal(of: "unwatched").contains("systemd's watchdog is switched off for this service"))
  }

  static func write(_ text: String, to path: String, in files: ScratchDirectory) throws {
    try text.write(to: files.url.appending(path: path), atomically: true, encoding: .utf8)
  }
}
