import Glibc

/// A source made of a descriptor of its own: Unix signals, the exit of a child, changes of files, an event counter.
///
/// The descriptor is closed when the last reference to the source goes. Safe on any thread.
public protocol DescriptorBacked: Sendable {
  /// The descriptor source that does the work.
  var source: Loop.DescriptorSource { get }
}

extension DescriptorBacked {
  /// Whether the source can still be called.
  public var isValid: Bool { source.isValid }

  /// Stops it for good.
  public func invalidate() {
    source.invalidate()
  }
}

extension Loop {
  /// Adds a ready-made source to a mode, or to all common ones.
  ///
  /// - Throws: ``LoopError`` as for a descriptor source.
  public func add(_ backed: some DescriptorBacked, to mode: Mode = .common) throws(LoopError) {
    try add(backed.source, to: mode)
  }

  /// Takes a ready-made source out of a mode; it stays valid and in its other modes.
  public func remove(_ backed: some DescriptorBacked, from mode: Mode = .common) {
    remove(backed.source, from: mode)
  }
}

/// A descriptor that is closed with its last reference.
final class OwnedDescriptor: Sendable {
  let number: Int32

  init(_ number: Int32) {
    self.number = number
  }

  deinit {
    close(number)
  }
}
