import CLinux
import Synchronization

/// The one loop that a timer, a source or an observer belongs to, from its first addition until it is freed.
///
/// The reference is strong and set once, so that any thread may follow it without a lock. The cycle it makes with the
/// loop ends with the loop's thread, which releases everything it holds.
struct LoopBinding: ~Copyable, Sendable {
  private let pointer = Atomic<UInt>(0)

  deinit {
    let bits = pointer.load(ordering: .acquiring)
    if let raw = UnsafeRawPointer(bitPattern: bits) { Unmanaged<Loop>.fromOpaque(raw).release() }
  }

  /// The loop, if the item was ever added to one.
  ///
  /// Sequentially consistent, as ``bind(to:)``: of one thread that ends an item and then looks for its loop, and one that gives it a
  /// loop and then looks whether it has ended, at least one sees the other.
  var loop: Loop? {
    let bits = pointer.load(ordering: .sequentiallyConsistent)
    guard let raw = UnsafeRawPointer(bitPattern: bits) else { return nil }
    return Unmanaged<Loop>.fromOpaque(raw).takeUnretainedValue()
  }

  @inline(__always)
  func isBound(to loop: Loop) -> Bool {
    pointer.load(ordering: .acquiring) == UInt(bitPattern: Unmanaged.passUnretained(loop).toOpaque())
  }

  /// Calls a closure with the loop, without counting references: the binding keeps it; false if there is none.
  @inline(__always)
  @discardableResult
  func withLoop(_ body: (Loop) -> Void) -> Bool {
    guard let raw = UnsafeRawPointer(bitPattern: pointer.load(ordering: .sequentiallyConsistent)) else { return false }
    Unmanaged<Loop>.fromOpaque(raw)._withUnsafeGuaranteedRef { body($0) }
    return true
  }

  /// Does what changes the item, with its loop warned: until the loop knows about the change, it does not take the item for
  /// what it was.
  @inline(__always)
  func changing(_ body: () -> Void) {
    guard let loop, !loop.isOwner else { return body() }
    let forks = clinux_loop_fork_count()
    loop.inbox.announceChange()
    body()
    // The child of a fork starts counting from zero.
    if forks == clinux_loop_fork_count() { loop.inbox.announcedChangeIsLeft() }
  }

  /// Binds to a loop; false when bound to another one already.
  @inline(__always)
  func bind(to loop: Loop) -> Bool {
    let wanted = UInt(bitPattern: Unmanaged.passUnretained(loop).toOpaque())
    let present = pointer.load(ordering: .acquiring)
    if present == wanted { return true }
    if present != 0 { return false }
    let (exchanged, original) = pointer.compareExchange(expected: 0, desired: wanted, ordering: .sequentiallyConsistent)
    if exchanged { _ = Unmanaged.passRetained(loop) }
    return exchanged || original == wanted
  }
}
