import Foundation
import TestSupport
import Testing

@testable import stalld

extension SystemdTests {
  /// The agent as an operator has it: by its units, as its own user, confined.
  @Suite struct AgentUnit {
    static let socket = "/run/stalld/stalld.sock"
    static let log = "/var/log/stalld/stalls.jsonl"
    /// A host in another language.
    static let host = "/usr/bin/python3 \(Installation.programs)/agent-host.py"

    /// Where an operator puts what differs from the unit as it is shipped.
    static let dropIns = "etc/systemd/system/stalld.service.d"

    /// Boots one with the socket enabled, and more files: paths and texts.
    ///
    /// The agent hardly watches itself, unless it is to: on a busy machine, its own stalls would be
    /// among the lines that tests count.
    static func boot(
      _ more: [String: String] = [:], watchingItself: Bool = false
    ) throws -> (machine: Machine, files: ScratchDirectory) {
      let files = try Installation.make(enabling: ["sockets.target.wants/stalld.socket"])
      let quiet = ["\(dropIns)/threshold.conf": "[Service]\nEnvironment=STALLMONITOR_THRESHOLD=30s\n"]
      for (path, text) in watchingItself ? more : more.merging(quiet, uniquingKeysWith: { own, _ in own }) {
        let place = files.url.appending(path: path)
        try FileManager.default.createDirectory(
          at: place.deletingLastPathComponent(), withIntermediateDirectories: true)
        try text.write(to: place, atomically: true, encoding: .utf8)
      }
      return (try Machine(files: files.url), files)
    }

    /// The reports in the agent's file, but for those that ``WrittenReport/lines(in:)`` leaves out; each is as the schema has it.
    static func reports(_ machine: Machine) throws -> [String] {
      var text = ""
      // Half of a line may be seen of one write(2).
      _ = try eventually(within: 10) {
        text = try machine.shell("cat \(log)").output
        return text.isEmpty || text.hasSuffix("\n")
      }
      try #require(text.isEmpty || text.hasSuffix("\n"), "half a line: \(text.suffix(100))")
      let copy = try ScratchDirectory()
      let file = copy.url.appending(path: "lines")
      try text.write(to: file, atomically: true, encoding: .utf8)
      let schema = Repository.file("Config/schema/stall-report.schema.json").path
      let judge = Repository.file("Tests/Support/validate-lines.py").path
      let verdict = try Program.run("/bin/sh", ["-c", "/usr/bin/python3 '\(judge)' '\(schema)' <'\(file.path)'"])
      #expect(verdict.status == 0, "\(verdict.output) \(verdict.errors)")
      return WrittenReport.lines(in: text)
    }

    @Test func firstConnectionStartsItAndNothingOfItStays() throws {
      let (machine, _) = try Self.boot()
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      #expect(try machine.property("ActiveState", of: "stalld.socket") == "active")
      #expect(try machine.property("ActiveState", of: "stalld.service") == "inactive")
      let socket = try machine.shell("stat -c %i \(Self.socket)").output

      let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
      let said = try machine.shell("\(nobody) \(Self.host) deliver \(Self.socket) 3")
      #expect(said.output == "delivered 3 over 1 connections\n", "\(said.errors)")
      #expect(try machine.property("ActiveState", of: "stalld.service") == "active")
      #expect(try machine.property("StatusText", of: "stalld.service") == "Serving")
      #expect(try machine.shell("stat -c %i \(Self.socket)").output == socket, "it is systemd's own socket")
      #expect(try Self.reports(machine).count == 3)

      let modes = try machine.shell(
        """
        stat -c '%n %U:%G %a' /run/stalld \(Self.socket) /run/stalld/control.sock /var/lib/stalld /var/lib/stalld/stalls \
        /var/log/stalld \(Self.log)
        """)
      #expect(
        modes.output.split(separator: "\n") == [
          "/run/stalld stalld:stalld 755", "/run/stalld/stalld.sock stalld:stalld 666",
          "/run/stalld/control.sock stalld:stalld 660", "/var/lib/stalld stalld:stalld 750",
          "/var/lib/stalld/stalls stalld:stalld 750", "/var/log/stalld stalld:stalld 750",
          "/var/log/stalld/stalls.jsonl stalld:stalld 640",
        ])
      // Of the agent's group, or not.
      #expect(try machine.shell("\(nobody) cat \(Self.log)").status != 0)
      let refused = try machine.shell("\(nobody) stalld status")
      #expect(refused.status == 1)
      #expect(refused.errors.contains("permission denied; run as root or as a member of the socket's group"))
      let member = "setpriv --reuid=65534 --regid=65534 --groups=stalld"
      #expect(try machine.shell("\(member) cat \(Self.log)").status == 0)
      // It fails after two seconds, which a busy machine may take.
      var status = ""
      _ = try eventually {
        let asked = try machine.shell("\(member) stalld status --json")
        status = asked.output
        return asked.status == 0
      }
      #expect(status.contains(#""lines":3,"queued":0,"state":"ok","target":"\#(Self.log)""#), "\(status)")

      // What systemd's own tools have to say of what is installed: nothing.
      for command in [
        "systemd-sysusers /usr/lib/sysusers.d/stalld.conf", "systemd-tmpfiles --create /usr/lib/tmpfiles.d/stalld.conf",
        "systemd-analyze verify --man=no --recursive-errors=no stalld.service stalld.socket",
      ] {
        let result = try machine.shell(command)
        #expect(result.status == 0)
        #expect(result.output + result.errors == "", "\(command)")
      }
      #expect(try machine.journal(of: "stalld", priority: "warning") == "")

      // Uninstalled.
      let removal = try machine.shell(
        """
        set -e
        systemctl disable --quiet --now stalld.socket stalld.service
        rm -r /\(Self.dropIns)
        rm /usr/lib/systemd/system/stalld.* /usr/lib/sysusers.d/stalld.conf /usr/lib/tmpfiles.d/stalld.conf
        systemctl daemon-reload
        """)
      #expect(removal.status == 0, "\(removal.errors)")
      #expect(try machine.shell("ls /run/stalld").output == "", "its sockets are gone")
      #expect(try machine.property("LoadState", of: "stalld.service") == "not-found")
      #expect(try machine.shell("systemctl --failed --no-legend --plain").output == "")
      #expect(try machine.shell("pgrep -x stalld").output == "")
      #expect(try Self.reports(machine).count == 3, "reports are the operator's")
    }

    @Test func reloadTakesAllOrNothing() throws {
      let (machine, _) = try Self.boot()
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      try machine.shell("journalctl --update-catalog; systemctl start stalld")
      let process = try machine.property("MainPID", of: "stalld")
      /// What the agent says of a configuration once it has read it.
      func reload(_ yaml: String, _ outcome: String, isRefused: Bool = false) throws -> String {
        let asked = try machine.shell("echo '\(yaml)' >/etc/stalld/stalld.yaml; date +@%s.%N; systemctl reload stalld")
        #expect((asked.status != 0) == isRefused, "a refused reload is a failed systemctl reload")
        let since = asked.output
        let command = "journalctl --quiet --catalog --unit stalld _PID=\(process) --since \(since)"
        try waitUntil { try machine.shell(command).output.contains(outcome) }
        return try machine.shell(command).output
      }
      let good = try reload("services: [{match: web, threshold: 77ms}]", "reloaded")
      #expect(!good.contains("not reloaded"))
      try waitUntil { try machine.property("StatusText", of: "stalld") == "Serving" }

      let bad = try reload("services: [{match: web, threshold: fast}]\nlimit: {}", "services", isRefused: true)
      #expect(bad.contains("/etc/stalld/stalld.yaml:1: services[0].threshold = fast"))
      #expect(bad.contains("/etc/stalld/stalld.yaml:2: limit"))
      #expect(bad.contains("-- Subject: The new settings of stalld are invalid"))
      #expect(bad.contains("The previous settings stay in effect."))
      try waitUntil {
        try machine.property("StatusText", of: "stalld") == "Serving; the last reload failed"
      }
      let hello = #"{"hello":{"protocol":1,"service":{"name":"web"}}}"#
      #expect(try machine.shell("echo '\(hello)' | \(Self.host) send \(Self.socket)").output.contains(#""77ms""#))

      _ = try reload("services: [{match: web, threshold: 78ms}]", "reloaded")
      #expect(try machine.shell("echo '\(hello)' | \(Self.host) send \(Self.socket)").output.contains(#""78ms""#))
      try waitUntil { try machine.property("StatusText", of: "stalld") == "Serving" }
      #expect(try machine.property("MainPID", of: "stalld") == process, "the same process all the while")
      #expect(try machine.property("ActiveState", of: "stalld") == "active")

      for message in AgentLog.Message.allCases {
        let entry = try machine.shell("journalctl --catalog --dump-catalog \(message.rawValue)")
        #expect(entry.output.contains("Defined-By: stalld"), "\(message) has no entry in the catalogue")
      }
    }

    /// A host that keeps what is not acknowledged loses nothing, and nothing is written twice.
    @Test func nothingIsLostOrDuplicatedAcrossRestarts() throws {
      let count = 3000
      let (machine, _) = try Self.boot([
        "etc/systemd/system/load.service": """
        [Service]
        ExecStart=\(Self.host) deliver \(Self.socket) \(count)
        """
      ])
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      #expect(try machine.shell("systemctl start load").status == 0)
      for round in 0..<3 {
        try waitUntil {
          Int(try machine.shell("cat \(Self.log) | wc -l").output.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
            >= round * 500 + 100
        }
        #expect(try machine.shell("systemctl restart stalld").status == 0)
        #expect(try machine.shell("systemctl kill --signal KILL stalld").status == 0)
      }
      // More than systemd's usual limit of starts.
      for _ in 0..<6 { #expect(try machine.shell("systemctl restart stalld").status == 0) }
      try waitUntil { try machine.property("ActiveState", of: "load") != "active" }
      let end = try machine.journal(of: "load")
      #expect(end.contains("delivered \(count) over "))
      #expect(!end.contains("over 1 connections"), "it was interrupted")
      let lines = try Self.reports(machine)
      let identities = lines.compactMap { line in line.range(of: #""id":""#).map { line[$0.upperBound...].prefix(32) } }
      #expect(lines.count == count)
      #expect(Set(identities).count == count)
    }

    /// Its main loop is really blocked: a call of its main thread does not return.
    @Test func deadLoopIsEndedAndReported() throws {
      let library = try ScratchDirectory()
      let source = library.url.appending(path: "hold.c")
      try """
      #define _GNU_SOURCE
      #include <sys/socket.h>
      #include <sys/syscall.h>
      #include <unistd.h>
      int accept4(int s, struct sockaddr *address, socklen_t *length, int flags) {
        if (getpid() == gettid() && unlink("/run/stalld/hold") == 0) sleep(3600);
        return syscall(SYS_accept4, s, address, length, flags);
      }
      """.write(to: source, atomically: true, encoding: .utf8)
      let compiler = try #require(Program.installed("gcc"), "gcc is missing")
      let shared = library.url.appending(path: "hold.so").path
      let build = try Program.run(compiler, ["-shared", "-fPIC", "-o", shared, source.path])
      #expect(build.status == 0, "\(build.errors)")
      let unit = """
        [Service]
        WatchdogSec=3
        Environment=LD_PRELOAD=/hold.so
        """
      let (machine, _) = try Self.boot(["\(Self.dropIns)/hold.conf": unit], watchingItself: true)
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      try machine.copy(shared, to: "/hold.so")
      #expect(try machine.shell("systemctl start stalld && runuser -u stalld -- touch /run/stalld/hold").status == 0)
      let said = try machine.shell("\(Self.host) deliver \(Self.socket) 3")
      #expect(said.output.hasPrefix("delivered 3 over "), "\(said.errors)")
      #expect(try machine.property("NRestarts", of: "stalld") == "1")
      let journal = try machine.journal(of: "stalld")
      #expect(journal.contains("Watchdog timeout"))
      #expect(journal.contains("Main process exited, code=killed, status=6/ABRT"))
      #expect(!journal.contains("timed out"), "SIGABRT was enough")
      // And why: its own monitor saw it, and the next agent writes it down.
      try waitUntil { try Self.reports(machine).contains { $0.contains("stall.fatal") } }
      let reports = try Self.reports(machine)
      let fatal = try #require(reports.first { $0.contains("stall.fatal") })
      // Without names if the agent's time limit for them was reached.
      #expect(fatal.contains("\"culprit\":\"accept4\"") || fatal.contains("\"culprit\":\"hold.so+0x"))
      #expect(fatal.contains("clock_nanosleep"))
      #expect(fatal.contains("\"unit\":\"stalld.service\""))
      #expect(fatal.contains("descriptor \\\"services connect\\\""))
    }

    /// Who sent a line, and how it ended, is what the kernel and systemd say.
    @Test func linesHaveTheUnitAndItsEnd() throws {
      func unit(_ number: Int, _ more: String) -> String {
        """
        [Service]
        Type=notify
        ExecStart=\(Self.host) stall \(Self.socket) \(number)
        \(more)
        """
      }
      let liar =
        #"{"event":{"name":"stall.ended","schema":"1.0"},"stall":{"id":"000000000000000000000000000000ff","sequence":1},"systemd":{"unit":"dies.service"}}"#
      let (machine, _) = try Self.boot([
        "etc/systemd/system/dies.service": unit(1, "User=nobody"),
        "etc/systemd/system/hangs.service": unit(2, "WatchdogSec=1"),
        "lie.json": liar + "\n",
        "etc/systemd/system/liar.service": """
        [Service]
        Type=oneshot
        ExecStart=/bin/sh -c '\(Self.host) send \(Self.socket) </lie.json'
        """,
      ])
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      #expect(try machine.shell("systemctl start dies hangs liar").status == 0)
      let process = try machine.property("MainPID", of: "dies")
      #expect(try machine.shell("systemctl kill --signal SEGV dies").status == 0)
      try waitUntil { try Self.reports(machine).count { $0.contains("stall.fatal") } == 2 }
      let reports = try Self.reports(machine)
      let died = try #require(reports.first { $0.contains("stall.fatal") && $0.contains("dies.service") })
      #expect(died.contains(#""systemd":{"unit":"dies.service"}"#))
      #expect(died.contains(#""process":{"pid":\#(process),"user":{"id":"65534"}"#))
      #expect(died.contains(#""cgroup":"/system.slice/dies.service""#))
      #expect(died.contains(#""exit_signal":"SIGSEGV","exit_result":"signal""#))
      let hung = try #require(reports.first { $0.contains("stall.fatal") && $0.contains("hangs.service") })
      #expect(hung.contains(#""exit_signal":"SIGABRT","exit_result":"watchdog""#))

      #expect(try machine.journal(of: "liar").contains("a key that only the agent may set"))
      #expect(!reports.contains { $0.contains("000000000000000000000000000000ff") })
      let journal = try machine.journal(of: "stalld")
      #expect(journal.contains("of user 0 (liar.service) was refused"))
      #expect(journal.contains("ended during a stall: it was killed by SIGABRT (systemd: watchdog)"))
    }

    /// What the confined agent can name: what all may read, and what its own user runs; the rest keeps build ID and offset.
    @Test func functionsAreNamedWhereTheAgentMayRead() throws {
      func victim(_ program: String, _ more: String) -> String {
        """
        [Service]
        Type=oneshot
        ExecStart=\(program) compute 2000
        \(more)
        """
      }
      // The drop-in for watched services, as it is shipped.
      let watched = try String(
        contentsOf: Repository.file("systemd/examples/watched.conf"), encoding: .utf8)
      let usual = "\(Installation.programs)/StallVictim"
      let (machine, _) = try Self.boot([
        // On a busy machine names take their time.
        "etc/stalld/stalld.yaml": "symbolication: { time_limit: 60s }\n",
        "etc/systemd/system/open.service.d/stalld.conf": watched,
        "etc/systemd/system/private.service.d/stalld.conf": watched,
        "etc/systemd/system/other-root.service.d/stalld.conf": watched,
        "etc/systemd/system/open.service": victim(usual, "User=nobody"),
        "etc/systemd/system/private.service": victim("/opt/private/StallVictim", "User=nobody"),
        "etc/systemd/system/other-root.service": victim(
          "/opt/app/StallVictim", "BindReadOnlyPaths=/opt/other:/opt/app"),
      ])
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      // One is closed to all other users, one is where only the service sees it. Each is a build of its own, for names are kept by build ID.
      let copies = try machine.shell(
        #"""
        set -e
        mkdir /opt/private /opt/app && cp -r \#(Installation.programs) /opt/other
        cp \#(Installation.programs)/* /opt/private
        for place in private other; do
          /usr/bin/python3 -c 'import re, sys
        program = open(sys.argv[1], "rb").read()
        note = re.search(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", program)
        open(sys.argv[1], "wb").write(program[:note.end()] + sys.argv[2].encode()[:4] + program[note.end() + 4:])
        ' /opt/$place/StallVictim $place
        done
        chmod 700 /opt/private /opt/other && chown -R nobody /opt/private
        """#)
      #expect(copies.status == 0, "\(copies.errors)")
      for name in ["open", "private", "other-root"] {
        let result = try machine.shell("systemctl start \(name)")
        #expect(result.status == 0, "\(result.errors)")
      }
      func ended(_ unit: String) throws -> String? {
        try Self.reports(machine).first { text in
          let line = try WrittenReport(text)
          // A turn that has to wait for a processor on a busy machine is another stall, and a shorter one.
          return line.event == "stall.ended" && line.duration > 1000 && text.contains("\"\(unit).service\"")
        }
      }
      for name in ["open", "private", "other-root"] {
        try waitUntil { try ended(name) != nil }
      }
      let open = try ended("open")
      #expect(open?.contains("blockByComputing()") == true)
      for name in ["private", "other-root"] {
        let line = try #require(try ended(name))
        #expect(!line.contains("blockByComputing()"), "\(name)")
        #expect(line.contains("/StallVictim\",\"build_id\":\""), "\(name)")
      }
      // By any user who may read the program, at any later time.
      let named = try machine.shell("grep private.service \(Self.log) | stalld symbolicate")
      #expect(named.output.contains("blockByComputing()"), "\(named.errors)")
    }

    @Test func metricsOverTCPTakeTheDropIn() throws {
      let (machine, _) = try Self.boot()
      defer { #expect(machine.halt() == 0, "nothing is left behind") }
      try machine.shell(
        "ip link set lo up; echo 'metrics: {listen: 127.0.0.1:9464}' >/etc/stalld/stalld.yaml; systemctl start --no-block stalld"
      )
      try waitUntil { try machine.journal(of: "stalld").contains("127.0.0.1:9464") }
      #expect(try machine.journal(of: "stalld").contains("cannot listen at 127.0.0.1:9464"))
      #expect(try machine.property("ActiveState", of: "stalld") != "active")

      // It comes by itself once it can.
      try machine.shell(
        """
        mkdir -p /etc/systemd/system/stalld.service.d
        cp /usr/share/stalld/systemd/network.conf /etc/systemd/system/stalld.service.d/ && systemctl daemon-reload
        """)
      try waitUntil { try machine.property("ActiveState", of: "stalld") == "active" }
      let page = try machine.shell(
        "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:9464/metrics\").read().decode())'"
      )
      #expect(page.output.contains("stalld_build_info"), "\(page.errors)")
      #expect(try machine.journal(of: "stalld.socket", priority: "warning") == "", "the socket was there all the while")
    }
  }
}
