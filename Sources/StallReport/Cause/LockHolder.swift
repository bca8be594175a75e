/// The thread that another one waits for: it holds the lock, drains the queue, runs the loop, or is to end.
package struct LockHolder: Sendable, Equatable {
  /// What is held.
  package enum Kind: String, Sendable, CaseIterable {
    /// A pthread mutex, also that of `NSLock` and similar classes.
    case mutex
    /// A lock whose owner the kernel knows: Swift's `Mutex`, a priority-inheriting pthread mutex, libdispatch's unfair lock.
    case inheriting = "pi_mutex"
    /// A pthread read-write lock that is held for writing.
    case readWrite = "rwlock"
    /// The lock of a standard stream.
    case stream
    /// The end of a thread that is joined.
    case thread
    /// A serial dispatch queue, or a barrier of a concurrent one.
    case queue
    /// A run loop that is to call something while the waiting thread sleeps.
    case loop
  }

  /// A thread that is waited for, unless the waiter's stack speaks against it.
  package struct Candidate: Equatable, Sendable {
    package var holder: LockHolder
    package var function: Function

    /// Which function's frame the waiter's stack must have.
    package enum Function: Sendable { case any, mutex, readLock, writeLock }

    package init(holder: LockHolder, function: Function) { (self.holder, self.function) = (holder, function) }
  }

  /// The thread's id.
  package var thread: Int32
  package var kind: Kind
  /// A queue's label.
  package var label: String?
  /// The wait ends by itself.
  package var hasTimeout = false

  package init(thread: Int32, kind: Kind, label: String? = nil, hasTimeout: Bool = false) {
    self.thread = thread
    self.kind = kind
    self.label = label
    self.hasTimeout = hasTimeout
  }

  /// The lock in words: the end of `stall.evidence.wait`.
  package var text: String {
    switch kind {
    case .mutex: "pthread mutex"
    case .inheriting: "mutex"
    case .readWrite: "read-write lock"
    case .stream: "lock of a standard stream"
    case .thread: "join of thread \(thread)"
    case .queue: "dispatch queue" + (label.map { " \"\($0)\"" } ?? "")
    case .loop: "run loop of thread \(thread)"
    }
  }

  /// The lock and its holder in words, after "waiting … for".
  package var phrase: String {
    switch kind {
    case .thread: "the end of thread \(thread)"
    case .queue: (label == nil ? "a " : "") + "\(text), which thread \(thread) runs"
    case .loop: "the \(text)"
    case .stream: "the \(text), held by thread \(thread)"
    case .mutex, .inheriting, .readWrite: "a \(text) held by thread \(thread)"
    }
  }
}
