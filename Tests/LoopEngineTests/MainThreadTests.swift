import Foundation
import TestSupport
import Testing

/// What `Loop.main` does on a real main thread, seen from outside.
@Suite struct MainThreadTests {
  @Test func anAsyncMainStaysOnTheMainThreadWithItsQueueAndActor() throws {
    let (said, status) = try run([])
    #expect(status == 0, "\(said)")
    let lines = said.split(separator: "\n").map(String.init)
    for expected in [
      "ok: main() begins on the main thread", "ok: main() goes on there after a sleep",
      "ok: a detached task does not", "ok: the main actor is there", "ok: the main queue is there, too",
      "ok: and shows as the callout",
      #"ok: modes and nesting: ["timer in a private mode", "queue", "outer", "inner"]"#,
    ] {
      #expect(lines.contains(expected))
    }
    #expect(lines.contains { $0.hasPrefix("ok: the queue is served beside a nested run") })
    #expect(lines.last == "all is well")
  }

  @Test(arguments: ["forkOnAThreadWithoutALoop", "forkOnAThreadWithALoop"])
  func theChildOfAForkOnAnotherThreadHasAMainLoopOfItsOwn(_ scenario: String) throws {
    let (said, status) = try run([scenario])
    #expect(status == 0, "\(said)")
  }

  @Test func withoutDescriptorsTheMainLoopRunsAndServesItsQueueLater() throws {
    let (said, status) = try run(["noDescriptorsBeforeTheFirstRun"])
    #expect(status == 0, "\(said)")
  }

  /// Runs the victim; the status is negative if a signal ended it.
  private func run(_ arguments: [String]) throws -> (said: String, status: Int32) {
    let program = try Program.run(Self.victim.path, arguments, limit: 120)
    return (program.output, program.signal.map { -$0 } ?? program.status)
  }

  /// Beside the test bundle, where the build leaves it.
  private static var victim: URL {
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: bundle).deletingLastPathComponent().appending(path: "MainThreadVictim")
  }
}
