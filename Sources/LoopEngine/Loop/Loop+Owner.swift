import CLinux

// In an extension: a class allows no transparent members.
extension Loop {
  /// Traps in a debug build on another thread than the loop's: what is owner-confined has no lock.
  ///
  /// In the child of a fork the thread that forked is still the owner.
  // Transparent and empty in a release build: an inlined `assert` would still count where the optimizer decides what to inline.
  @_transparent
  func assertOwner(_ function: StaticString = #function) {
    #if DEBUG
    assert(
      isOwner || isBeyondOwnership, "Loop.\(function) must be called on the loop's thread; use perform to get there")
    #endif
  }

  #if DEBUG
  /// Whether nobody owns the loop yet, while it is made; or no longer, while its own thread tears it down.
  private var isBeyondOwnership: Bool {
    guard published.owner.load(ordering: .relaxed) == 0 else { return false }
    return !hasEnded || clinux_loop_get_current() == Unmanaged.passUnretained(self).toOpaque()
  }
  #endif
}
