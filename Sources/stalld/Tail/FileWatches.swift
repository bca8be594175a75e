import CLinux
import Glibc
import LoopEngine

/// One inotify instance for many files and directories: a user may have only 128 instances.
final class FileWatches: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  /// The number of a watch; a file or directory has the same one under all its names.
  typealias Number = Int32
  /// Means all watches: changes came faster than they were read.
  static let overflow: Number = -1

  private let changed: (Set<Number>) -> Void
  private var descriptor: Int32
  private var source: Loop.DescriptorSource?
  /// Why changes of some files or directories are not reported, and what to do; nil if they are.
  private(set) var failure: String?

  /// Makes an instance that watches nothing yet.
  ///
  /// - Parameters:
  ///   - loop: The calling thread's.
  ///   - changed: Called with the watches that have news.
  init(on loop: Loop, changed: @escaping (Set<Number>) -> Void) {
    self.changed = changed
    descriptor = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
    guard descriptor >= 0 else {
      failure = "\(SystemError(code: errno)); raise fs.inotify.max_user_instances, or ulimit -n"
      return
    }
    do {
      source = try loop.watch(descriptor, name: "followed files") { [weak self] _, _ in
        self?.readChanges()
      }
    } catch {
      failure = "\(error)"
      close(descriptor)
      descriptor = -1
    }
  }

  deinit {
    source?.invalidate()
    if descriptor >= 0 { close(descriptor) }
  }

  /// Watches a file or a directory, or does so still; nil if that is refused.
  func add(_ path: String, for events: Int32) -> Number? {
    guard descriptor >= 0 else { return nil }
    let number = inotify_add_watch(descriptor, path, UInt32(events))
    if number >= 0 { return number }
    // Any other error is the path's, and the one that opens it says so.
    if errno == ENOSPC || errno == ENOMEM {
      failure = "\(SystemError(code: errno)); raise fs.inotify.max_user_watches"
    }
    return nil
  }

  func remove(_ number: Number) { inotify_rm_watch(descriptor, number) }

  private func readChanges() {
    var changes: Set<Number> = []
    withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 8) { buffer in
      let length = read(descriptor, buffer.baseAddress!, buffer.count)
      var position = 0
      while position < length {
        changes.insert(buffer.loadUnaligned(fromByteOffset: position, as: Number.self))
        position += 16 + Int(buffer.loadUnaligned(fromByteOffset: position + 12, as: UInt32.self))
      }
    }
    changed(changes)
  }
}
