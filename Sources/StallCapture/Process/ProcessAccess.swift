import CLinux
import CUnwind
import PlatformLibc
import Synchronization

/// A process whose threads are read: where procfs lists them, and its memory.
///
/// ``OwnProcess`` is the one that this library runs in, and the only one so far. Another one is read through `/proc/PID` and
/// process_vm_readv(2).
package protocol ProcessAccess: Sendable {
  /// The process's directory in procfs, such as `/proc/self`.
  var directory: String { get }

  /// The directory of its threads in procfs, such as `/proc/self/task`.
  var threadsDirectory: String { get }

  /// Copies memory into `buffer`, up to the first page that cannot be read.
  ///
  /// Another thread may change or unmap the memory at any moment. Returns the number of bytes.
  func read(_ address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int
}

/// The process that this library runs in.
package struct OwnProcess: ProcessAccess {
  package init() {}

  package var directory: String { "/proc/self" }

  /// One that is never there, where procfs shows other numbers than the process's own.
  package var threadsDirectory: String {
    Self.showsOtherNumbers.load(ordering: .relaxed) ? directory + "/none" : directory + "/task"
  }

  private static let showsOtherNumbers = Atomic<Bool>(false)

  /// Compares the thread ids of procfs with the process's own, and returns whether they are the same.
  ///
  /// They differ where procfs was mounted in an outer PID namespace (pid_namespaces(7)): there a number leads to another thread. Called
  /// when the watch begins, as the child of a fork may be in a new namespace.
  static func checkNumbers() -> Bool {
    // The thread's number in procfs's namespace, and in each one from there to the thread's own (proc(5), `NSpid`).
    let isOther =
      ProcFile("/proc/thread-self/status")?.parse(capacity: 4096) { text -> Bool? in
        guard var scanner = FieldScanner(after: "\nNSpid:", in: text) else { return nil }
        let number = scanner.number()
        return number != Int64(clinux_gettid()) || scanner.number() != nil
      } ?? false
    showsOtherNumbers.store(isOther, ordering: .relaxed)
    return !isOther
  }

  package func read(_ address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    cunwind_read(cunwind_own_process(), address, buffer.baseAddress, buffer.count)
  }
}

extension ProcessAccess {
  /// The directory of a thread in procfs.
  func directory(of thread: Int32) -> String { threadsDirectory + "/\(thread)" }

  /// Whether procfs shows the thread.
  package func hasThread(_ id: Int32) -> Bool { access(directory(of: id), F_OK) == 0 }

  /// Whether procfs shows the process's threads, but not this one.
  func lacksThread(_ id: Int32) -> Bool { !hasThread(id) && !threads().isEmpty }

  /// The ids of the process's threads.
  package func threads() -> [Int32] {
    guard let directory = opendir(threadsDirectory) else { return [] }
    defer { closedir(directory) }
    var ids: [Int32] = []
    while let entry = readdir(directory) {
      let id = withUnsafeBytes(of: &entry.pointee.d_name) { name in
        FieldScanner.number(UnsafeRawBufferPointer(rebasing: name[..<(name.firstIndex(of: 0) ?? 0)]))
      }
      if let id, id > 0 { ids.append(Int32(truncatingIfNeeded: id)) }
    }
    return ids
  }

  /// A thread's name as the kernel has it (at most 15 bytes), or nil if the thread has ended.
  package func name(of thread: Int32) -> String? {
    guard let file = ProcFile(directory(of: thread) + "/comm") else { return nil }
    return file.parse(capacity: 64) { bytes in
      String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
  }

  /// Whether no other process can have the memory at `address`: its page is anonymous, and not shared.
  ///
  /// False if that cannot be read.
  func isPrivate(_ address: UInt64) -> Bool {
    // An entry for each page (proc(5), `pagemap`): bit 63 present, 62 in swap, 61 of a file or shared.
    guard let file = ProcFile(directory + "/pagemap") else { return false }
    return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 1) { entry in
      let offset = address / UInt64(getpagesize()) * 8
      guard file.read(into: UnsafeMutableRawBufferPointer(entry), at: offset) == 8 else { return false }
      return entry[0] >> 62 != 0 && entry[0] >> 61 & 1 == 0
    }
  }

  /// Reads a value, or returns nil if it cannot be read.
  func load<T: BitwiseCopyable>(_ address: UInt64, as type: T.Type) -> T? {
    withUnsafeTemporaryAllocation(byteCount: MemoryLayout<T>.size, alignment: MemoryLayout<T>.alignment) { buffer in
      read(address, into: buffer) == buffer.count ? buffer.load(as: T.self) : nil
    }
  }

  /// Reads the terminated string at `address`, of `limit` bytes at most, or returns nil if it cannot be read.
  ///
  /// What is no UTF-8 or no printable character is replaced.
  func string(at address: UInt64, limit: Int) -> String? {
    guard address != 0 else { return nil }
    return withUnsafeTemporaryAllocation(byteCount: limit, alignment: 1) { buffer in
      let count = read(address, into: buffer)
      guard count > 0 else { return nil }
      let text = UnsafeRawBufferPointer(rebasing: buffer[..<count]).prefix { $0 != 0 }
      return String(printable: text) + (text.count == limit ? "…" : "")
    }
  }
}

extension String {
  /// The bytes as text on one line.
  package init(printable bytes: some Sequence<UInt8>) {
    self.init(decoding: bytes.map { $0 < 0x20 || $0 == 0x7f ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
  }
}
