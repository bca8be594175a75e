import CLinux
import PlatformLibc

extension Loop {
  /// A source that reports changes of a file or a directory, through inotify.
  ///
  /// Each source takes an inotify instance. By default a user may have 128 (`fs.inotify.max_user_instances`).
  public final class FileChangeSource: DescriptorSource, @unchecked Sendable {
    /// What can happen to a file.
    public struct Change: OptionSet, Hashable, Sendable, CustomStringConvertible {
      /// The kernel's bits (`IN_MODIFY` and so on).
      public let rawValue: UInt32

      /// Makes a set of the kernel's bits.
      public init(rawValue: UInt32) {
        self.rawValue = rawValue
      }

      /// Its contents changed.
      public static var modified: Change { Change(rawValue: UInt32(IN_MODIFY)) }
      /// Its permissions, owner or times changed.
      public static var attributes: Change { Change(rawValue: UInt32(IN_ATTRIB)) }
      /// Somebody who had it open for writing closed it.
      public static var closedAfterWriting: Change { Change(rawValue: UInt32(IN_CLOSE_WRITE)) }
      /// An entry of the directory was made.
      public static var created: Change { Change(rawValue: UInt32(IN_CREATE)) }
      /// An entry of the directory was removed.
      public static var deleted: Change { Change(rawValue: UInt32(IN_DELETE)) }
      /// An entry was moved out of the directory.
      public static var movedFrom: Change { Change(rawValue: UInt32(IN_MOVED_FROM)) }
      /// An entry was moved into the directory, as by the rename that replaces a configuration file.
      public static var movedTo: Change { Change(rawValue: UInt32(IN_MOVED_TO)) }
      /// The watched file itself was removed.
      public static var deletedItself: Change { Change(rawValue: UInt32(IN_DELETE_SELF)) }
      /// The watched file itself was moved.
      public static var movedItself: Change { Change(rawValue: UInt32(IN_MOVE_SELF)) }
      /// The watched file or its file system is gone.
      ///
      /// This is the last call: the source is then invalid.
      ///
      /// Reported whether asked for or not.
      public static var ended: Change { Change(rawValue: UInt32(IN_IGNORED)) }
      /// The entry is a directory; comes along with what happened to it.
      public static var directory: Change { Change(rawValue: UInt32(IN_ISDIR)) }
      /// Changes came faster than they were read: some are lost.
      ///
      /// Reported whether asked for or not.
      public static var overflowed: Change { Change(rawValue: UInt32(IN_Q_OVERFLOW)) }

      /// The changes in words, as `[.created, .directory]`.
      public var description: String {
        words([
          ("modified", .modified), ("attributes", .attributes), ("closedAfterWriting", .closedAfterWriting),
          ("created", .created), ("deleted", .deleted), ("movedFrom", .movedFrom), ("movedTo", .movedTo),
          ("deletedItself", .deletedItself), ("movedItself", .movedItself), ("ended", .ended),
          ("directory", .directory), ("overflowed", .overflowed),
        ])
      }
    }

    /// Makes a source for a path; it works once it is added to a loop.
    ///
    /// - Parameters:
    ///   - path: A file or a directory. A file that is replaced by a rename is another file: watch its directory.
    ///   - changes: The changes to report.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread for each change, with the entry's name if a directory is watched. A set
    ///     may say more than one thing: ask it what it `contains`.
    /// - Throws: ``LoopError`` when the path can't be watched or there is no descriptor left.
    public init(
      _ path: String, for changes: Change, name: StaticString? = nil, file: StaticString = #fileID,
      line: UInt32 = #line, body: sending @escaping (Change, String?) -> Void
    ) throws(LoopError) {
      let descriptor = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
      if descriptor < 0 { throw LoopError("make an inotify instance") }
      let owned = OwnedDescriptor(descriptor)
      if inotify_add_watch(descriptor, path, changes.rawValue) < 0 { throw LoopError("watch the file \(path)") }
      super.init(descriptor, name: name, file: file, line: line) { source, _ in
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
          let length = read(owned.number, buffer.baseAddress!, buffer.count)
          var position = 0
          while position < length && source.isValid {
            let event = buffer.baseAddress! + position
            let mask = event.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
            let nameLength = Int(event.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
            let entry = nameLength == 0 ? nil : String(cString: (event + 16).assumingMemoryBound(to: CChar.self))
            let change = Change(rawValue: mask)
            body(change, entry)
            if change.contains(.ended) { source.invalidate() }
            position += 16 + nameLength
          }
        }
      }
    }
  }
}
