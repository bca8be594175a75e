import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts in C: built against the installed library as theirs are, and judged by their lines.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
  struct CHostTests {
    /// What `scripts/build-c-library` installs.
    private static let library = Repository.root.appending(path: ".build/c-library/root")

    private static let victim = Result { try build("Tests/Victims/CLoopVictim/victim.c", packages: "stallmonitor") }

    private func run(_ scenario: String, environment: [String: String] = [:]) throws -> Victim {
      try Victim.run(scenario, environment: environment, program: Self.victim.get())
    }

    // MARK: A hand-written epoll loop

    @Test(arguments: [("compute", "compute_digest", "running"), ("sleep", "sleep_in_handler", "sleep")])
    func stallIsReportedWithItsFunction(scenario: String, function: String, cause: String) throws {
      let victim = try run(scenario)
      #expect(victim.status == 0)
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      let ended = try #require(victim.reports.last)
      #expect(ended.culprit == function)
      #expect(ended.culpritFrame?["file"] as? String == Self.source("Tests/Victims/CLoopVictim/victim.c"))
      #expect(ended.isCaused(by: cause))
      #expect(ended["loop", "name"] as? String == "requests")
      #expect(ended["loop", "kind"] as? String == "c")
      #expect(ended.duration > 590 && ended.duration < 2000)
    }

    @Test(arguments: ["healthy", "idle", "paused"])
    func healthyLoopIsNotReported(scenario: String) throws {
      let victim = try run(scenario)
      #expect(victim.status == 0)
      // On a machine that is too busy a short turn may well be late; then it got no processor, and
      // no function is responsible.
      #expect(victim.reports.allSatisfy { $0.cause == "starved" || $0.cause == "throttled" || $0.cause == "stopped" })
    }

    @Test func eachLoopHasItsThreshold() throws {
      let victim = try run("two")
      let told = victim.reports("stall.ended")
      #expect(told.map { $0["loop", "name"] as? String } == ["fast"])
      #expect(told.first?["stall", "threshold_ms"] as? Double == 100)
      #expect(told.first?["thread", "id"] as? Int != told.first?["process", "pid"] as? Int)
    }

    /// A thread of the smallest stack that the C library allows makes, serves and destroys its loop.
    @Test func loopOnASmallStack() throws {
      let victim = try run("small-stack")
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.culprit == "compute_digest")
    }

    @Test func destroyedOnItsThreadTheStallEndsThere() throws {
      let ended = try #require(run("destroyed-by-itself").reports("stall.ended").first)
      #expect(ended.duration > 490 && ended.duration < 1090)
      #expect(ended["stall", "evidence", "watch_ended"] == nil)
    }

    @Test func destroyedByAnotherThreadTheStallIsOpen() throws {
      let victim = try run("destroyed-by-another")
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended["stall", "evidence", "watch_ended"] as? Bool == true)
      #expect(ended.duration > 590 && ended.duration < 890)
    }

    @Test func threadThatEndsInAStallEndsIt() throws {
      let victim = try run("thread-ends-in-stall")
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended.culprit == "compute_digest")
      #expect(ended.duration > 590)
      #expect(ended["stall", "evidence", "watch_ended"] == nil)
    }

    @Test func threadsThatEndAreReleased() throws {
      let victim = try run("thread-ends")
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
      #expect(victim.facts["create"] == nil, "the name was not free again")
      #expect(victim.facts["created"] == "1")
      // A stack that the C library keeps, an arena: but not one for each of the fifty.
      #expect(try #require(victim.facts["mappings_grown"].flatMap { Int($0) }) < 25)
    }

    @Test func childOfAForkIsNotWatched() throws {
      let victim = try run("fork")
      #expect(victim.status == 0)
      #expect(victim.facts["child"] == "0")
    }

    /// A thread of the parent's may hold any lock at the moment of the fork.
    @Test func childOfAForkWaitsForNoLock() throws {
      let victim = try run("fork-in-calls")
      #expect(victim.facts["ended"] == "300")
    }

    /// Only a handler of the monitor's that had a lock for itself could make it wait.
    @Test func handlersOfSignalsMayFork() throws {
      let victim = try Victim.run(
        "fork-in-handlers", through: ["/usr/bin/timeout", "30"], program: Self.victim.get())
      #expect(victim.status == 0)
      #expect(victim.facts["forked"] == "1")
    }

    /// The watchdog waits for a fork, and is late by that.
    @Test func forkThatTakesLongIsNoStopOfTheProcess() throws {
      let victim = try run("slow-fork")
      #expect(victim.reports("stall.ended").map(\.cause) == ["sleep"], "\(victim.reports)")
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.duration > 990)
      #expect(ended["stall", "evidence", "frozen_ms"] == nil)
    }

    /// What it does not know of has its default.
    @Test func hostOfAnOlderHeaderHasFewerOptions() throws {
      let victim = try run("older")
      #expect(victim.facts["start"] == "0", "\(victim.talk)")
      #expect(victim.facts["again"] == "0")
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended["stall", "threshold_ms"] as? Double == 100)
    }

    @Test func misuseIsAnErrorWithWords() throws {
      let victim = try run("misuse")
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
      let expected = [
        "early": "-2", "watching": "0", "threshold": "-1", "sink": "-1", "size": "-1", "first": "0", "second": "0",
        "twice": "-3", "null": "-1", "empty": "-1", "control": "-1", "long": "-1", "limit": "-1", "again": "0",
        "name_is_free": "1", "survived": "1", "untried": "1", "forgotten": "1", "created": "1",
      ]
      for (key, value) in expected { #expect(victim.facts[key] == value, "\(key)") }
      #expect(victim.talk.contains("stallmonitor_options.threshold_ms is 3600001; allowed: 1 to 3600000"))
      #expect(
        victim.talk.contains(
          "stallmonitor_options.sink is \"syslog\"; allowed: stdout; file: and a path"))
      #expect(victim.talk.contains("another loop is already watched as \"one\""))
      #expect(
        victim.talk.contains(
          "the monitor is not running: it was not started yet (call stallmonitor_start() first), the environment disables it"
        ))
    }

    @Test func disabledByTheOperatorTheServiceContinues() throws {
      let victim = try run("compute", environment: ["STALLMONITOR_ENABLED": "false"])
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
      #expect(victim.facts["start"] == "1")
    }

    // MARK: What the service can notice

    /// The service may read `errno` after a call that the library makes on the same thread.
    @Test func callsKeepErrno() throws {
      let facts = try run("errno").facts
      for call in ["busy", "idle", "create", "destroy", "pause", "resume", "watching", "stop", "start"] {
        #expect(facts[call] == "1", "stallmonitor_\(call)")
      }
    }

    /// What the library keeps for good is no leak: with LeakSanitizer, the service ends with its own code.
    @Test(arguments: ["compute", "started-twice"])
    func leakCheckerFindsNothing(scenario: String) throws {
      // A compiler may come without that library.
      guard Self.hasAddressSanitizer else { return }
      let program = try Self.build(
        "Tests/Victims/CLoopVictim/victim.c", packages: "stallmonitor", flags: "-fsanitize=address")
      let victim = try Victim.run(scenario, program: program)
      #expect(victim.status == 0, "\(victim.talk)")
      #expect(!victim.reports("stall.ended").isEmpty)
    }

    private static let hasAddressSanitizer =
      (try? Program.run(
        "/bin/sh", ["-c", "echo 'int main(void) { return 0; }' | cc -fsanitize=address -x c -o /dev/null -"]))?.status
      == 0

    // MARK: libuv and GLib

    /// The header for libuv refuses an older one, with words.
    private static let hasOldLibuv =
      (try? Program.run("/usr/bin/env", ["pkg-config", "--exists", "libuv < 1.44.2"]))?.status == 0

    /// A stall in a callback of a descriptor, which libuv calls inside of its poll, and one in a timer's.
    @Test(arguments: [
      ("libuv", "libuv", "sleep"), ("libuv", "libuv", "later"), ("glib", "glib-2.0", "sleep"),
    ])
    func exampleIsReportedWithItsFunction(host: String, package: String, command: String) throws {
      guard host != "libuv" || !Self.hasOldLibuv else { return }
      let program = try Self.build("Examples/\(host)-service/service.c", packages: "stallmonitor \(package)")
      // An emulated processor takes more than a second to read the first names.
      let milliseconds = TestMachine.isEmulated ? 4000 : 600
      let input = FileManager.default.temporaryDirectory.appending(path: "stalld-input-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: input) }
      mkfifo(input.path, 0o600)
      let victim = try Victim.run(
        input.path, through: ["/bin/sh", "-c", "exec \"$0\" < \"$1\""], program: program
      ) { _ in
        let writer = try FileHandle(forWritingTo: input)
        for line in ["hello\n", "\(command) \(milliseconds)\n"] {
          try writer.write(contentsOf: Data(line.utf8))
          usleep(200_000)
        }
        usleep(UInt32(milliseconds + 200) * 1000)
        try writer.close()
      }
      #expect(victim.status == 0)
      #expect(victim.talk.contains("Hello, hello!"))
      #expect(victim.talk.hasSuffix("Stopped.\n"))
      let events = victim.reports.map(\.event)
      #expect(events.first == "stall.started" && events.last == "stall.ended")
      #expect(TestMachine.isEmulated || events.count == 2)
      let ended = try #require(victim.reports.last)
      #expect(ended.culprit == "wait_for_a_slow_backend")
      #expect(ended.cause == "sleep")
      #expect(ended["loop", "name"] as? String == "requests")
      #expect(ended.duration > Double(milliseconds - 10) && ended.duration < Double(milliseconds + 1400))
    }

    /// The first pass is a turn, and so is the rest of a callback that starts the watch; what comes before the first pass is none, and
    /// neither is a callback of another context.
    @Test(arguments: ["libuv", "glib"])
    func hooksCountFromTheCall(host: String) throws {
      guard host != "libuv" || !Self.hasOldLibuv else { return }
      let program = FileManager.default.temporaryDirectory.appending(path: "stalld-hooks-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: program) }
      let headers = Self.source("Sources/CStallMonitor/include")
      _ = try Self.output(
        "/bin/sh", "-c",
        """
        cc -std=gnu11 -Wall -Wextra -Werror -I\(headers) -o \(program.path) \
        \(Self.source("Tests/Victims/CLoopVictim/hooks.c")) $(pkg-config --cflags --libs libuv glib-2.0)
        """)
      let lines = try Self.output(program.path, host).split(separator: "\n").map(String.init)
      #expect(
        lines == (host == "glib" ? ["setup=0", "callback=1", "other=0"] : ["setup=0", "timer=1", "closed=1"]))
    }

    // MARK: The library

    @Test(.enabled(if: ProcessInfo.isRuntimeInLibrary, "Debian has no static Swift library for aarch64 to link with"))
    func libraryNeedsNoSwiftAndShowsOnlyItsOwnFunctions() throws {
      let file = Self.library.appending(path: "lib/libstallmonitor.so").path
      let needed = try Self.output("/usr/bin/readelf", "--dynamic", file).split(separator: "\n").filter {
        $0.contains("(NEEDED)")
      }
      #expect(!needed.isEmpty)
      #expect(needed.allSatisfy { !$0.contains("swift") && !$0.contains("dispatch") && !$0.contains("Foundation") })
      let symbols = try Self.output("/usr/bin/nm", "--dynamic", "--defined-only", "--extern-only", file)
      let functions = symbols.split(separator: "\n").filter { $0.contains(" T ") }
      #expect(functions.count == 11)
      #expect(functions.allSatisfy { $0.contains(" T stallmonitor_") })
    }

    /// In C11 and in C++, without a warning.
    @Test(arguments: Repository.headersInC, ["c", "c++"])
    func headerCompiles(header: String, language: String) throws {
      guard header != "stallmonitor_uv" || !Self.hasOldLibuv else { return }
      let source = FileManager.default.temporaryDirectory.appending(path: "stalld-\(UUID().uuidString).\(language)")
      defer { try? FileManager.default.removeItem(at: source) }
      let text = """
        #include <\(header).h>
        int main(void) { stallmonitor_options options = STALLMONITOR_OPTIONS; return stallmonitor_start(&options); }

        """
      try Data(text.utf8).write(to: source)
      let standard = language == "c" ? "cc -std=c11 -D_DEFAULT_SOURCE" : "c++ -std=c++11"
      _ = try Self.output(
        "/bin/sh", "-c",
        """
        \(standard) -x \(language) -Wall -Wextra -Wpedantic -Werror -Wno-unused-function -fsyntax-only \
        -I\(Self.library.path)/include $(pkg-config --cflags libuv glib-2.0 | sed 's/-I/-isystem /g') \(source.path)
        """)
    }

    // MARK: Building as a host does

    private static func source(_ path: String) -> String { Repository.root.appending(path: path).path }

    private static func build(_ path: String, packages: String, flags: String = "") throws -> URL {
      try #require(
        FileManager.default.fileExists(atPath: library.appending(path: "lib/pkgconfig/stallmonitor.pc").path),
        "libstallmonitor is missing: run `make test`, or `scripts/build-c-library \(library.path)`")
      let directory = Repository.root.appending(path: ".build/c-library/hosts")
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
      let program = directory.appending(path: path.replacingOccurrences(of: "/", with: "-") + flags + ".out")
      _ = try output(
        "/bin/sh", "-c",
        """
        export PKG_CONFIG_PATH=\(library.path)/lib/pkgconfig
        cc -std=gnu11 -Wall -Wextra -Werror -g -O1 \(flags) $(pkg-config --cflags \(packages)) -o \(program.path) \(source(path)) \
        $(pkg-config --libs \(packages)) -Wl,-rpath,\(library.path)/lib
        """)
      return program
    }

    private static func output(_ command: String...) throws -> String {
      let program = try Program.run(command[0], Array(command.dropFirst()))
      try #require(program.status == 0, "\(command.joined(separator: " ")): \(program.errors)")
      return program.output
    }
  }
}
