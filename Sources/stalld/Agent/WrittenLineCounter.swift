import LoopEngine
import Synchronization

/// How many lines the writer has finished, on their way to the agent's loop: many calls of ``add(_:)`` are one wake-up.
final class WrittenLineCounter: Sendable {
  private let waiting = Atomic<Int>(0)
  private let loop: Loop
  private let body: @Sendable (Int) -> Void

  /// `body` is called on the loop.
  init(loop: Loop, _ body: @escaping @Sendable (Int) -> Void) {
    self.loop = loop
    self.body = body
  }

  /// From any thread.
  func add(_ count: Int) {
    guard waiting.add(count, ordering: .acquiringAndReleasing).oldValue == 0 else { return }
    loop.perform(name: "lines have been written") {
      self.body(self.waiting.exchange(0, ordering: .acquiringAndReleasing))
    }
  }
}
