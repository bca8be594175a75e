import Foundation
import TestSupport
import Testing

@testable import Matrix

/// What a process can see of being watched is what Documentation/Guarantees.md says, and no more.
@Suite(.serialized, .takingTurns)
struct VisibleTests {
  /// Whether the kernel permits perf events to this process.
  private static let mayUsePerf: Bool = {
    let text = try? String(contentsOfFile: "/proc/sys/kernel/perf_event_paranoid", encoding: .utf8)
    let level = text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) } ?? 3
    return level <= 2 || geteuid() == 0
  }()

  private func output(_ name: String, environment: [String: String] = [:]) throws -> [String] {
    let run = try HostRun(.visible(name, environment: environment), isWatched: true)
    #expect(run.outcome.end == "exit 0")
    return run.outcome.output
  }

  @Test func thereAreThreeThreads() throws {
    #expect(
      try output("threads") == [
        "thread: stall-names", "thread: stall-output", "thread: stall-watchdog", "after stop()",
      ])
  }

  @Test(.enabled(if: mayUsePerf, "perf events are not permitted"))
  func perfEventsTakeNoSignalAndNoStack() throws {
    #expect(try output("signals") == ["real-time signals with a handler: 0, alternate stack: none"])
  }

  @Test func timerTakesOneSignalAndAnAlternateStack() throws {
    #expect(try output("signals-under-a-filter") == ["real-time signals with a handler: 1, alternate stack: one"])
  }

  /// Swift's runtime in the library handles no crash of a host in C, though there is a program that would print it.
  @Test(
    .enabled(
      if: ProcessInfo.isRuntimeInLibrary, "the library has no runtime: Debian has no static ones for aarch64"))
  func swiftsRuntimeHandlesNoCrash() throws {
    let root = try ScratchDirectory()
    let folder = root.url.appending(path: "libexec/swift/linux")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try FileManager.default.copyItem(atPath: "/bin/true", toPath: folder.appending(path: "swift-backtrace").path)
    #expect(
      try output("crash-handlers", environment: ["SWIFT_ROOT": root.url.path, "SWIFT_BACKTRACE": "enable=yes"])
        == ["handlers of crashes: 0, alternate stack: none"])
  }

  @Test func userNamespaceIsRefused() throws {
    #expect(try output("user-namespace") == ["unshare: -1, errno \(EINVAL)"])
  }
}
