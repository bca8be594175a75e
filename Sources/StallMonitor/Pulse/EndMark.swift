import Synchronization

/// A place outside of the pulse that gets the end of a followed turn: a file that outlives the process, or an agent's memory.
///
/// Plain addresses: the pulse does not know what lies there.
struct EndMark: @unchecked Sendable {  // The words are atomic.
  /// Gets the word that follows the late turn.
  let word: UnsafeMutablePointer<Atomic<UInt64>>
  /// Gets the time of the end, before the word; nil if nobody wants it.
  var time: UnsafeMutablePointer<Atomic<UInt64>>?

  /// Stores the end: one or two stores.
  func store(_ word: UInt64, at time: UInt64) {
    self.time?.pointee.store(time, ordering: .relaxed)
    self.word.pointee.store(word, ordering: .releasing)
  }
}

/// The places that get the end of a followed turn of one loop.
///
/// The addresses must be mapped memory for as long as `owners` live, with any content: the loop may
/// be late with its stores. Without an array: the loop's thread may have little stack, and iterates
/// over nothing.
final class EndMarks: Sendable {
  private let sentinel: ForkSentinel
  private let first: EndMark?
  private let second: EndMark?
  private let third: EndMark?
  // Kept for as long as the loop may store.
  private let owners: [(any AnyObject & Sendable)?]

  /// Marks that are stored in this order.
  init(
    _ first: EndMark?, _ second: EndMark?, _ third: EndMark?, owners: [(any AnyObject & Sendable)?],
    sentinel: ForkSentinel
  ) {
    (self.first, self.second, self.third) = (first, second, third)
    self.owners = owners
    self.sentinel = sentinel
  }

  /// Stores the end of the turn; on the loop's thread.
  ///
  /// Nothing in the child of a fork.
  func store(_ word: UInt64, at time: UInt64) {
    guard sentinel.isInOwnProcess else { return }
    first?.store(word, at: time)
    second?.store(word, at: time)
    third?.store(word, at: time)
  }
}
