import CLinux
import PlatformLibc

extension Loop {
  /// A counter (eventfd) that any thread or process adds to; the loop receives the sum.
  ///
  /// Writers that are not Swift write to its `descriptor`, which belongs to this object.
  public final class CounterSource: DescriptorSource, @unchecked Sendable {
    private let owned: OwnedDescriptor

    /// Makes a counter at zero; it works once it is added to a loop.
    ///
    /// - Parameters:
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread with the sum of what was added since the last call.
    /// - Throws: ``LoopError`` when there is no descriptor left.
    public init(
      name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
      body: sending @escaping (UInt64) -> Void
    ) throws(LoopError) {
      let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
      if descriptor < 0 { throw LoopError("make an eventfd") }
      let owned = OwnedDescriptor(descriptor)
      self.owned = owned
      super.init(descriptor, name: name, file: file, line: line) { _, _ in
        var sum: UInt64 = 0
        if read(owned.number, &sum, 8) == 8 { body(sum) }
      }
    }

    /// Adds to the counter: one system call, from any thread, also from a signal handler.
    ///
    /// - Parameter value: What to add.
    /// - Returns: False, and nothing is added, when the sum would not be less than 2⁶⁴ − 1.
    @discardableResult
    public func add(_ value: UInt64 = 1) -> Bool {
      eventfd_write(owned.number, value) == 0
    }
  }
}
