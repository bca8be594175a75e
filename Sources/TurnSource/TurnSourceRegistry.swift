import CLinux
import Synchronization

/// The process-wide registry in which turn sources announce themselves.
///
/// It has one entry, the loop of the main thread. A monitor finds that loop here whether it was made before or after the monitor
/// started, and a process that has no such loop links none.
package enum TurnSourceRegistry {
  /// The loop of the main thread; nil until something makes it.
  ///
  /// In the child of a fork it is the forking thread's loop, if that has one: `fork.h` keeps the pointer.
  package static var main: (any TurnSource)? {
    clinux_loop_get_main().flatMap { Unmanaged<AnyObject>.fromOpaque($0).takeUnretainedValue() as? any TurnSource }
  }

  /// Announces the loop of the main thread, once `clinux_loop_set_main` has it.
  ///
  /// It calls the observer on the calling thread. It takes no lock, so it works in the child of a fork.
  package static func announceMain(_ source: any TurnSource) {
    announcements.add(1, ordering: .sequentiallyConsistent)
    if let raw = UnsafeRawPointer(bitPattern: observer.load(ordering: .sequentiallyConsistent)) {
      Unmanaged<MainTurnSourceObserver>.fromOpaque(raw).takeUnretainedValue().call(source)
    }
    announcements.subtract(1, ordering: .sequentiallyConsistent)
  }

  /// Calls the observer with the loop of the main thread: now if there is one, or when something makes it.
  ///
  /// It takes the place of an earlier observer.
  package static func observeMain(_ new: MainTurnSourceObserver) {
    replace(by: UInt(bitPattern: Unmanaged.passRetained(new).toOpaque()))
    // After the store: a loop that is made meanwhile is seen here, or sees the observer.
    if let main { new.call(main) }
  }

  /// Ends the observation, unless another observer has taken its place.
  package static func endObservation(by old: MainTurnSourceObserver) {
    let raw = UInt(bitPattern: Unmanaged.passUnretained(old).toOpaque())
    if observer.compareExchange(expected: raw, desired: 0, ordering: .sequentiallyConsistent).exchanged { release(raw) }
  }

  // A retained MainTurnSourceObserver, or 0; and how many announcements may be using it.
  private static let observer = Atomic<UInt>(0)
  private static let announcements = Atomic<Int>(0)

  private static func replace(by new: UInt) {
    let old = observer.exchange(new, ordering: .sequentiallyConsistent)
    if old != 0 { release(old) }
  }

  /// Releases an observer, unless a loop is being announced at this very moment: then it stays for good, rather than that anyone waits.
  private static func release(_ raw: UInt) {
    guard announcements.load(ordering: .sequentiallyConsistent) == 0, let raw = UnsafeRawPointer(bitPattern: raw)
    else { return }
    Unmanaged<MainTurnSourceObserver>.fromOpaque(raw).release()
  }
}

/// A closure that is called once with the loop of the main thread.
package final class MainTurnSourceObserver: Sendable {
  private let hasBeenCalled = Atomic<Bool>(false)
  private let body: @Sendable (any TurnSource) -> Void

  /// - Parameter body: Called on the thread that makes the loop, which may be one of a forked child's, or on the one that begins to observe.
  package init(_ body: @escaping @Sendable (any TurnSource) -> Void) { self.body = body }

  fileprivate func call(_ source: any TurnSource) {
    if !hasBeenCalled.exchange(true, ordering: .acquiringAndReleasing) { body(source) }
  }
}
