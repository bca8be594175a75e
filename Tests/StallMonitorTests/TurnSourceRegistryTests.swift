import LoopEngine
import Synchronization
import Testing
import TurnSource

/// The registry is the process's, and so is the loop that it knows.
@Suite(.serialized)
struct TurnSourceRegistryTests {
  private let calls = Calls()

  private final class Calls: Sendable {
    let loops = Mutex<[ObjectIdentifier]>([])

    func observer() -> MainTurnSourceObserver {
      MainTurnSourceObserver { [self] loop in loops.withLock { $0.append(ObjectIdentifier(loop)) } }
    }
  }

  @Test func mainLoopIsRegisteredWhenItIsMade() {
    let main = Loop.main
    #expect(TurnSourceRegistry.main === main)
  }

  @Test func observerIsCalledOnceWithTheMainLoop() {
    let main = Loop.main
    let observer = calls.observer()
    TurnSourceRegistry.observeMain(observer)
    TurnSourceRegistry.announceMain(main)
    TurnSourceRegistry.endObservation(by: observer)
    #expect(calls.loops.withLock { $0 } == [ObjectIdentifier(main)])
  }

  @Test func observerIsReleasedWithTheObservation() {
    weak var weakCalls: Calls?
    do {
      let calls = Calls()
      weakCalls = calls
      let (first, second) = (calls.observer(), calls.observer())
      TurnSourceRegistry.observeMain(first)
      TurnSourceRegistry.observeMain(second)
      // Another one has taken its place.
      TurnSourceRegistry.endObservation(by: first)
      TurnSourceRegistry.endObservation(by: second)
      TurnSourceRegistry.endObservation(by: second)
    }
    #expect(weakCalls == nil)
  }
}
