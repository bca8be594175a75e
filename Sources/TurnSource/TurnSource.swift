import CLinux

/// A loop that a monitor can watch, such as LoopEngine's `Loop`.
///
/// The types that conform belong to this package.
public protocol WatchableLoop: AnyObject, Sendable {
  /// What a monitor asks the loop, which is private to this package.
  var turnSource: TurnSourceReference { get }
}

/// A loop's answer to ``WatchableLoop/turnSource``.
public struct TurnSourceReference: Sendable {
  package let source: any TurnSource

  package init(_ source: any TurnSource) { self.source = source }
}

/// Something whose turns a monitor can watch, such as a run loop.
///
/// A turn is the work between two waits. A source stamps where its turns begin and end, and can be asked from any thread what it is
/// doing.
package protocol TurnSource: AnyObject, Sendable {
  /// The kernel's number of the thread that runs the turns; 0 as long as the thread is not known.
  var threadID: Int32 { get }

  /// Where that thread's stack ends; 0 if it is not known.
  var stackEnd: UInt64 { get }

  /// Whether the calling thread runs the turns.
  var isCurrent: Bool { get }

  /// What the source is doing now: its mode, and what it is calling, as `timer "name" (Module/File.swift:12)`.
  ///
  /// From any thread. It takes no lock and never waits, whatever the source's thread does or holds.
  var turnStatus: (mode: String?, callout: String?) { get }

  /// How long the turns took that have ended: how many took up to each length that occurred, and their time in all.
  ///
  /// From any thread; it takes no lock.
  var turnTotals: (histogram: [(upTo: Duration, turns: UInt)], workTime: Duration) { get }

  /// Runs a closure once on the source's thread, and wakes the source for it.
  ///
  /// - Returns: False if the source's thread has ended. The closure is then released, as it is if the thread ends before it comes to it.
  func performInTurn(_ body: @escaping @Sendable () -> Void) -> Bool

  /// Stamps each turn and each callout; a turn that is in progress counts from now.
  ///
  /// The stamp is the source's until ``remove(_:then:)``.
  func add(_ stamp: TurnStamp)

  /// Ends the stamping.
  ///
  /// - Parameters:
  ///   - stamp: What was added.
  ///   - done: Called when the stamp may be freed: on the source's thread, or on the calling one if that thread has ended.
  func remove(_ stamp: TurnStamp, then done: @escaping @Sendable () -> Void)
}

/// Where a source stamps its turns, for one monitor.
///
/// - Important: The source's thread alone uses the memory from ``TurnSource/add(_:)`` to the end of ``TurnSource/remove(_:then:)``.
package struct TurnStamp: @unchecked Sendable {
  package let pointer: UnsafeMutablePointer<clinux_turn_stamp>

  package init(_ pointer: UnsafeMutablePointer<clinux_turn_stamp>) { self.pointer = pointer }
}
