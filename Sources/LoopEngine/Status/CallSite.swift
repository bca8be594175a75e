/// The line that scheduled a piece of work, and the work's name, as immortal pointers.
@frozen
@usableFromInline
struct CallSite: Hashable, @unchecked Sendable {  // Both pointers lead to literals, which are never freed.
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

  /// Makes the call site of work that no line of code has scheduled.
  init(name: StaticString? = nil) {
    file = nil
    self.name = name?.utf8Start
    line = 0
  }
}

/// The process's table of call sites by pointer, for users without space for three words.
///
/// Equal call sites share one pointer, which is freed with its last user.
enum CallSites {
  // @unchecked: the pointers lead to memory that is not written again as long as it is there.
  private struct Table: @unchecked Sendable {
    var entries: [CallSite: (pointer: UnsafeMutablePointer<CallSite>, users: Int)] = [:]
  }

  private static let table = Guarded<Table>.table(Table())

  /// How many there are.
  static var count: Int { table.withLock { $0.entries.count } }

  /// A pointer to be given back by ``release(_:)``.
  static func pointer(to callSite: CallSite) -> UnsafePointer<CallSite> {
    table.withLock { table in
      if let known = table.entries[callSite] {
        table.entries[callSite]!.users += 1
        return UnsafePointer(known.pointer)
      }
      let new = UnsafeMutablePointer<CallSite>.allocate(capacity: 1)
      new.initialize(to: callSite)
      table.entries[callSite] = (new, 1)
      return UnsafePointer(new)
    }
  }

  static func release(_ pointer: UnsafePointer<CallSite>) {
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
