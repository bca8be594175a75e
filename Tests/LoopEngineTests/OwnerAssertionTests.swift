import Glibc
import Synchronization
import Testing

@testable import LoopEngine

/// What belongs to a loop's thread is touched by that thread alone, and a debug build says so.
struct OwnerAssertionTests {
  private static var isDebugBuild: Bool {
    var isDebug = false
    assert(
      {
        isDebug = true
        return true
      }())
    return isDebug
  }

  @Test(.enabled(if: isDebugBuild, "a release build checks nothing"))
  func touchFromAnotherThreadTraps() async throws {
    let result = try #require(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let loop = Loop.current
        TestThread { _ = loop.takeSequence() }.join()
      })
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("takeSequence() must be called on the loop's thread"), "\(text)")
  }

  @Test(.enabled(if: isDebugBuild, "a release build checks nothing"))
  func touchAfterTheThreadHasEndedTraps() async throws {
    let result = try #require(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let known = Mutex<Loop?>(nil)
        TestThread { known.withLock { $0 = Loop.current } }.join()
        _ = known.withLock { $0 }?.takeSequence()
      })
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("takeSequence() must be called on the loop's thread"), "\(text)")
  }

  /// A loop is made, used, forked with and torn down.
  @Test func ownersOwnUseIsLegal() async {
    await #expect(processExitsWith: .success) {
      TestThread {
        let loop = Loop.current
        loop.perform(after: .seconds(60)) { _ in }
        loop.perform { loop.stop() }
        loop.run()
        let child = forkProcess()
        if child == 0 {
          // The forking thread stays the owner.
          loop.perform { loop.stop() }
          _exit(loop.run() == .stopped ? 0 : 1)
        }
        var status: Int32 = 0
        waitpid(child, &status, 0)
        if status != 0 { exit(1) }
      }.join()
    }
  }
}
