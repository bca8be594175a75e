extension Loop {
  /// What a loop is calling out to: somebody else's code, with the place that scheduled it.
  public struct Callout: Sendable {
    /// The kinds of work that a loop calls.
    public enum Kind: UInt8, Sendable {
      /// A block of `perform`, or a job of an executor.
      case block = 1
      /// A timer that is due.
      case timer = 2
      /// A signalled source.
      case source = 3
      /// A descriptor source that is ready.
      case descriptor = 4
      /// An observer.
      case observer = 5
      /// The main dispatch queue, with the jobs of the main actor.
      case mainQueue = 6
      /// Idle work.
      case idle = 7
      /// A flush before waiting.
      case flush = 8
    }

    /// What sort of work it is.
    public let kind: Kind
    /// The `#fileID` of the line that scheduled the work, nil where there is none (the main queue).
    public let fileID: ImmortalText?
    /// The line in that file, 0 where there is none.
    public let line: UInt32
    /// The name that was given to the work, if any.
    public let name: ImmortalText?
  }

  /// What a loop is doing, as another thread sees it.
  public struct Snapshot: Sendable {
    /// Whether the loop sleeps for events.
    public let isWaiting: Bool
    /// The mode that the innermost run serves, nil outside of a run.
    public let mode: ImmortalText?
    /// The innermost callout, nil between callouts.
    public let callout: Callout?
    /// Whether the thread of the loop has ended.
    public let hasEnded: Bool
  }
}

/// Where work was scheduled from and what it is called, in immortal pointers.
@frozen
@usableFromInline
struct Origin: Hashable, @unchecked Sendable {  // Both pointers lead to literals, which are never freed.
  @usableFromInline var file: UnsafePointer<UInt8>?
  @usableFromInline var name: UnsafePointer<UInt8>?
  @usableFromInline var line: UInt32

  @inlinable
  init(_ file: StaticString, _ line: UInt32, _ name: StaticString?) {
    self.file = file.hasPointerRepresentation ? file.utf8Start : nil
    self.line = line
    if let name, name.hasPointerRepresentation {
      self.name = name.utf8Start
    } else {
      self.name = nil
    }
  }

  init() {
    file = nil
    name = nil
    line = 0
  }
}

/// Origins by pointer, for callers without space for three words.
///
/// Equal origins share one pointer, which is freed with its last user.
enum Origins {
  // @unchecked: the pointers lead to memory that is not written again as long as it is there.
  private struct Table: @unchecked Sendable {
    var entries: [Origin: (pointer: UnsafeMutablePointer<Origin>, users: Int)] = [:]
  }

  private static let table = Guarded<Table>.table(Table())

  /// How many there are.
  static var count: Int { table.withLock { $0.entries.count } }

  /// A pointer to be given back by ``release(_:)``.
  static func pointer(to origin: Origin) -> UnsafePointer<Origin> {
    table.withLock { table in
      if let known = table.entries[origin] {
        table.entries[origin]!.users += 1
        return UnsafePointer(known.pointer)
      }
      let new = UnsafeMutablePointer<Origin>.allocate(capacity: 1)
      new.initialize(to: origin)
      table.entries[origin] = (new, 1)
      return UnsafePointer(new)
    }
  }

  static func release(_ pointer: UnsafePointer<Origin>) {
    table.withLock { table in
      guard let entry = table.entries[pointer.pointee] else { return }
      if entry.users > 1 {
        table.entries[pointer.pointee]!.users -= 1
      } else {
        table.entries[pointer.pointee] = nil
        entry.pointer.deallocate()
      }
    }
  }
}
