extension Loop {
  /// A value for the closures of one loop, used on the loop's thread only and without a lock.
  ///
  /// - Important: An access on another thread than the loop's stops the program, and so does an access during a change of the value.
  public final class Local<Value>: @unchecked Sendable {
    // @unchecked: the loop's thread alone uses the value, which each access checks; what comes in and goes out is sent.
    private let loop: Loop
    private var storage: Value

    /// Makes a container for a value, which no other code uses afterwards.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - loop: The loop whose thread may use it. Any thread may make this object.
    public init(_ value: sending Value, on loop: Loop = .current) {
      storage = value
      self.loop = loop
    }

    /// Calls a closure with the value, on the loop's thread only.
    ///
    /// - Parameter body: It may change the value, and take things out of it that the value does not use any more.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws.
    public func withValue<Result, Failure: Error>(
      _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
      requireThread()
      return try body(&storage)
    }

    private func requireThread() {
      precondition(loop.isCurrent, "a Loop.Local must be used on its loop's thread")
    }
  }
}

extension Loop.Local where Value: Sendable {
  /// The value, on the loop's thread only.
  public var value: Value {
    get {
      requireThread()
      return storage
    }
    _modify {
      requireThread()
      yield &storage
    }
  }
}
