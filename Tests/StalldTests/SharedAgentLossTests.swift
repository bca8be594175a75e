import Foundation
import TestSupport
import Testing

extension SharedAgentTests {
  /// What was acknowledged is in the files, whatever happens to them; and while it could not be, nobody says that all is well.
  @Suite struct Loss {
    private let shared = SharedMachine.current!
    /// The agent may take so long to notice an output that refuses lines.
    private static let notice = 3.0
    /// And so long to notice one that takes lines and does not respond.
    private static let longNotice = 30.0

    /// Ends the observer: between two times it must not have seen once that all is well.
    private func expectAlarm(_ observer: SharedMachine.Client, from: Double, to: Double) throws {
      let seen = try SharedMachine.Observation(observer.stop())
      let times = seen.timesOK(from: from, to: to)
      #expect(times.of > 0, "nobody asked")
      #expect(times.health == 0, "/healthz said ok \(times.health) of \(times.of) times")
      #expect(times.status == 0, "stalld status said ok \(times.status) of \(times.of) times")
    }

    /// The end of a test in which a directory was removed: the host and the observer end, nothing acknowledged is missing, and nobody has said
    /// that all was well while it was not there.
    private func expectNothingLost(
      _ host: SharedMachine.Client, _ observer: SharedMachine.Client, from removed: Double, to end: Double
    ) throws {
      try host.advance(by: 50)
      try host.stop()
      let result = try shared.compare(host, since: removed)
      print("removed directory:", result)
      #expect(result.acknowledged > 50)
      #expect(result.missing == 0, "acknowledged and in no file")
      try expectAlarm(observer, from: removed + Self.notice, to: end)
    }

    @Test("the directory is removed, and created again by another user")
    func removedDirectory() throws {
      try shared.startAgent()
      let observer = try shared.start(.root, "observe")
      let host = try shared.startHost().client
      try host.advance(by: 50)
      let removing = SharedMachine.now
      try shared.shell("rm -rf \(SharedMachine.log)")
      let removed = SharedMachine.now
      usleep(4_500_000)
      try shared.shell("mkdir \(SharedMachine.log)")
      usleep(1_000_000)
      let end = SharedMachine.now
      // The unit makes it its own again.
      try shared.shell("systemctl restart stalld")
      try expectNothingLost(host, observer, from: removed, to: end)
      // The agent may notice the loss before `rm` has ended.
      #expect(try shared.warnings(since: removing).contains("\(SharedMachine.log)/stalls.jsonl"))
    }

    @Test("a subdirectory is removed, and created again without a restart", .onlyInLongForm("test-shared-agent"))
    func removedSubdirectory() throws {
      let place = "\(SharedMachine.log)/own"
      try shared.startAgent(
        "outputs: [{type: file, path: \(place)/stalls.jsonl}]\n", prepare: "mkdir \(place) && chown stalld: \(place)")
      let observer = try shared.start(.root, "observe")
      let host = try shared.startHost().client
      try host.advance(by: 50)
      try shared.shell("rm -rf \(place)")
      let removed = SharedMachine.now
      usleep(4_500_000)
      // Root's: the agent cannot make a file there.
      try shared.shell("mkdir -m 755 \(place)")
      usleep(1_000_000)
      let end = SharedMachine.now
      try shared.shell("chown stalld: \(place)")
      // What it could not write waits for it.
      #expect(try eventually(within: 30) { try shared.isHealthy() })
      try expectNothingLost(host, observer, from: removed, to: end)
    }

    @Test(
      "the file is removed, or replaced by something else", .onlyInLongForm("test-shared-agent"),
      arguments: [
        "rm FILE", "mv FILE FILE.1", "until rm -f FILE; ln -s /dev/null FILE; do :; done",
        "until rm -f FILE; mkdir FILE; do :; done",
      ])
    func removedFile(script: String) throws {
      let file = "\(SharedMachine.log)/stalls.jsonl"
      try shared.startAgent()
      let host = try shared.startHost(every: 5).client
      try host.advance(by: 30)
      try shared.shell(script.replacing("FILE", with: file))
      let removed = SharedMachine.now
      usleep(1_500_000)
      try shared.shell("[ -f \(file) -a ! -L \(file) ] || rm -rf \(file)")
      try host.advance(by: 100)
      try host.stop()
      let result = try shared.compare(host, since: removed)
      print(script, result)
      #expect(result.acknowledged >= 100)
      #expect(result.missing == 0, "acknowledged and in no file")
    }

    @Test("two files, one of them full, and restarts", .onlyInLongForm("test-shared-agent"))
    func unevenOutputs() throws {
      let small = "\(SharedMachine.log)/small"
      let outputs =
        "outputs: [{type: file, path: \(SharedMachine.log)/large/stalls.jsonl}, {type: file, path: \(small)/stalls.jsonl}]\n"
      try shared.startAgent(
        outputs,
        prepare: """
          mkdir \(SharedMachine.log)/large \(small) && mount -t tmpfs -o size=64k tmpfs \(small)
          chown stalld: \(SharedMachine.log)/large \(small)
          """)
      defer { _ = try? shared.shell("systemctl stop stalld.socket stalld; umount \(small)") }
      let host = try shared.startHost().client
      // It is full; the other one continues.
      try waitUntil { try !shared.isHealthy() }
      let full = SharedMachine.now
      let observer = try shared.start(.root, "observe")
      usleep(500_000)
      try shared.shell("systemctl restart stalld")
      usleep(1_500_000)
      try shared.shell("systemctl kill --signal KILL stalld")
      usleep(4_500_000)
      // The two starts aside, when its hosts have not come yet.
      let seen = try SharedMachine.Observation(observer.stop())
      let times = seen.timesOK(from: full, to: SharedMachine.now)
      print("full output: ok \(times.health) and \(times.status) of \(times.of) times")
      #expect(
        seen.seen.suffix(20).allSatisfy { $0.code != 200 && $0.problems?.isEmpty != true },
        "it says ok with a full output")
      try shared.shell("mount -o remount,size=64m \(small)")
      try host.advance(by: 100)
      try host.stop()
      for directory in ["large", "small"] {
        let result = try shared.compare(host, in: "\(SharedMachine.log)/\(directory)")
        print(directory, result)
        #expect(result.acknowledged > 100)
        #expect(result.missing == 0, "acknowledged and not in \(directory)")
        #expect(result.doubled == 0, "twice in \(directory)")
      }
    }

    @Test("the journal stops, and starts again", .onlyInLongForm("test-shared-agent"))
    func journalComesAgain() throws {
      try shared.startAgent("outputs: [{type: stdout}]\n")
      let host = try shared.startHost().client
      try host.advance(by: 30)
      let units =
        "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald.service"
      try shared.shell("systemctl stop \(units) 2>/dev/null; true")
      usleep(1_500_000)
      try shared.shell("systemctl start \(units) 2>/dev/null; systemctl is-active systemd-journald")
      usleep(3_000_000)
      // What the kernel had accepted for the old one is lost, an unknown amount; nothing is lost
      // after this.
      let back = SharedMachine.now
      #expect(eventually(within: 20) { host.count >= 30 + 600 }, "no report is acknowledged any more")
      try host.stop()
      try shared.machine.syncJournal()
      try shared.shell(
        "mkdir \(SharedMachine.log)/journal; journalctl --quiet --no-pager --all --output cat --unit stalld | grep '^{' >\(SharedMachine.log)/journal/stalls.jsonl"
      )
      let result = try shared.compare(host, since: back, in: "\(SharedMachine.log)/journal")
      print("journal:", result)
      #expect(result.acknowledged > 0)
      #expect(result.missing == 0, "acknowledged and not in the journal")
    }

    @Test("a disk hangs", .onlyInLongForm("test-shared-agent"))
    func hangingDisk() throws {
      let slow = "\(SharedMachine.log)/slow"
      let disk = try HangingDisk(shared.machine)
      defer { disk.thaw() }
      let outputs =
        "outputs: [{type: file, path: \(slow)/stalls.jsonl}, {type: file, path: \(SharedMachine.log)/fast/stalls.jsonl}]\n"
      try shared.startAgent(
        outputs,
        prepare: """
          mkdir \(slow) \(SharedMachine.log)/fast
          \(disk.mountCommand(at: slow))
          chown stalld: \(slow) \(SharedMachine.log)/fast
          """)
      defer {
        disk.thaw()
        _ = try? shared.shell("systemctl stop stalld.socket stalld; umount \(slow)")
      }
      let host = try shared.startHost(every: 20).client
      try host.advance(by: 50)
      let observer = try shared.start(.root, "observe")
      func lines() throws -> Int {
        Int(
          try shared.shell("wc -l <\(SharedMachine.log)/fast/stalls.jsonl").trimmingCharacters(
            in: .whitespacesAndNewlines)) ?? 0
      }
      try disk.freeze(at: slow)
      let frozen = SharedMachine.now
      let (before, acknowledged) = (try lines(), host.count)
      #expect(try eventually(within: Self.longNotice) { try !shared.isHealthy() }, "nobody says that it hangs")
      let noticed = SharedMachine.now
      usleep(2_000_000)
      let written = try lines() - before
      // A line may have been on its way.
      #expect(host.count <= acknowledged + 20, "acknowledged what is on one disk only")
      #expect(written >= 50, "the other output has got \(written) lines meanwhile")
      #expect(
        try shared.warnings(since: frozen).contains("\(slow)/stalls.jsonl"), "the journal does not name the output")
      let end = SharedMachine.now
      disk.thaw()
      try host.advance(by: 50)
      #expect(try eventually(within: 30) { try shared.isHealthy() }, "it recovers")
      try host.stop()
      print("hanging disk: noticed after \(noticed - frozen) s; the other output had \(written) lines meanwhile")
      for directory in ["slow", "fast"] {
        let result = try shared.compare(host, in: "\(SharedMachine.log)/\(directory)")
        #expect(result.missing == 0, "acknowledged and not in \(directory)")
        #expect(result.doubled == 0, "twice in \(directory)")
      }
      let seen = try SharedMachine.Observation(observer.stop())
      let alarm = seen.firstAlarm(after: frozen)
      #expect(alarm != nil, "neither /healthz nor the control socket said so")
      let times = seen.timesOK(from: alarm ?? frozen, to: end)
      #expect(times.health == 0 && times.status == 0, "\(times)")
    }
  }
}

/// A file system on a loop device that can be frozen: every write waits until it is thawed.
///
/// It is thawed when the test's process ends, however it ends.
private final class HangingDisk {
  private let scratch: ScratchDirectory
  private let device: String
  private let number: String
  private let machine: Machine
  private var guardian: (process: Process, input: Pipe)?

  init(_ machine: Machine) throws {
    self.machine = machine
    scratch = try ScratchDirectory()
    let image = scratch.url.appending(path: "disk").path
    let made = try Program.run(
      "/bin/sh", ["-c", "truncate -s 64M '\(image)' && mkfs.ext4 -q '\(image)' && losetup --find --show '\(image)'"])
    try #require(made.status == 0, "no loop device: \(made.errors)")
    device = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
    number = String(device.drop { !$0.isNumber })
  }

  /// A script for the machine, which has no such device by itself; the device goes with its last mount.
  func mountCommand(at path: String) -> String {
    "[ -b \(device) ] || mknod \(device) b 7 \(number); mount \(device) \(path) && losetup --detach \(device)"
  }

  func freeze(at path: String) throws {
    let (input, output) = (Pipe(), Pipe())
    let script = "fsfreeze --freeze \(path) && echo frozen && cat >/dev/null; fsfreeze --unfreeze \(path)"
    guardian = (try machine.startOutside(script, input: input, output: output), input)
    let said = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
    try #require(said == "frozen\n")
  }

  func thaw() {
    guard let (process, input) = guardian else { return }
    guardian = nil
    input.fileHandleForWriting.closeFile()
    process.waitUntilExit()
  }

  deinit {
    thaw()
    // Nothing if it was mounted: then it goes by itself.
    _ = try? Program.run(
      "/bin/sh", ["-c", "losetup --associated '\(scratch.url.path)/disk' | grep -q . && losetup --detach \(device)"])
  }
}
