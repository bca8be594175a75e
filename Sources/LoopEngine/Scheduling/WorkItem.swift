/// A block on its way to a loop: 40 bytes, held in flat buffers so that posting allocates nothing beyond the closure's
/// own context.
///
/// Not copyable: a copy of a closure is a retain and a release, and they would be most of what a post costs.
@frozen
@usableFromInline
struct WorkItem: ~Copyable {
  /// A closure in a struct field keeps its natural calling convention; as a generic argument it would get a thunk, and
  /// an allocation.
  @usableFromInline let body: () -> Void
  @usableFromInline let callSite: CallSite
  /// The modes in which the block runs: a mode's number, 0 for the common ones, a negative number for several
  /// modes (see ``ModeSets``).
  @usableFromInline let modes: Int32

  @inlinable
  init(modes: Int32, callSite: CallSite, body: consuming @escaping () -> Void) {
    self.modes = modes
    self.callSite = callSite
    self.body = body
  }
}
