import Foundation
import TestSupport
import Testing

/// `stalld run` as any service manager that speaks sd_notify(3) sees it.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct NotificationTests {
  private let scratch: ScratchDirectory

  init() throws { scratch = try ScratchDirectory() }

  @Test(arguments: NotifySocket.Name.allCases, [SIGTERM, SIGINT])
  func readyIsSentAndThenStopping(name: NotifySocket.Name, signal: Int32) throws {
    let manager = try NotifySocket(name)
    let daemon = try start(environment: ["NOTIFY_SOCKET": manager.address])
    defer { if daemon.isRunning { kill(daemon.processIdentifier, SIGKILL) } }
    let first = try #require(manager.next(within: 60_000))
    #expect(first.split(separator: "\n").contains("READY=1"))
    #expect(first.split(separator: "\n").contains("STATUS=Serving"))
    #expect(manager.next(within: 0) == nil)
    kill(daemon.processIdentifier, signal)
    daemon.waitUntilExit()
    #expect(daemon.terminationReason == .exit)
    #expect(daemon.terminationStatus == 0)
    #expect(manager.next(within: 0)?.split(separator: "\n").contains("STOPPING=1") == true)
    #expect(manager.next(within: 0) == nil)
  }

  /// No service manager receives the notifications: the agent runs nevertheless.
  @Test(arguments: ["", "@nobody-listens-here", "/nonexistent/notify", "vsock:2:1234", longerThanAnySocketName])
  func invalidSocketIsNoError(address: String) throws {
    let daemon = try start(environment: ["NOTIFY_SOCKET": address])
    defer { if daemon.isRunning { kill(daemon.processIdentifier, SIGKILL) } }
    try waitUntilItCatchesSignals(daemon)
    kill(daemon.processIdentifier, SIGTERM)
    daemon.waitUntilExit()
    #expect(daemon.terminationReason == .exit)
    #expect(daemon.terminationStatus == 0)
  }

  static let longerThanAnySocketName = "/" + String(repeating: "x", count: 200)

  private func start(environment: [String: String]) throws -> Process {
    // What it would use if it were installed is not there.
    let directory = scratch.url.path
    return try Program.start(
      Program.built("stalld", "debug").path,
      [
        "run", "--socket", "\(directory)/s", "--control", "\(directory)/c", "--details", "\(directory)/details",
        "--output", "stdout",
      ], environment: environment)
  }

  /// Without a word from the daemon its readiness shows in what it does: it blocks the signals that it reads.
  private func waitUntilItCatchesSignals(_ process: Process) throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
      let status = (try? String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)) ?? ""
      let blocked = status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") }?.dropFirst("SigBlk:\t".count)
      if let mask = blocked.flatMap({ UInt64($0, radix: 16) }), mask & (1 << UInt64(SIGTERM - 1)) != 0 { return }
      usleep(2000)
    }
    Issue.record("the daemon never came to block its signals")
  }
}
