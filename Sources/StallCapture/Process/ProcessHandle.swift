import CLinux
import CUnwind
import PlatformLibc
import Synchronization

/// A process whose threads are read: where procfs lists them, its memory, its modules and its layouts.
///
/// ``own`` is the process that this library runs in, for any thread. A handle of another process is used by one thread at a time. It
/// is of the program that the process runs when it is made: after execve(2), or when the process has ended, nothing can be read.
package final class ProcessHandle: Sendable {
  /// The process that this library runs in.
  package static let own = ProcessHandle()

  /// The process's directory in procfs, such as `/proc/self`.
  package let directory: String
  /// Whether it is the process that this library runs in.
  package let isOwn: Bool
  /// CUnwind's handle of it, through which memory and modules are read.
  // The own process's serves any thread; another one's serves the thread that uses the handle.
  package nonisolated(unsafe) let cunwind: OpaquePointer

  private let showsOtherNumbers = Atomic<Bool>(false)
  private let layouts = AtomicLazyReference<Layouts>()

  private init() {
    directory = "/proc/self"
    isOwn = true
    cunwind = cunwind_own_process()
  }

  /// Why a process cannot be read.
  package struct Failure: Error {
    /// The errno value.
    package let code: Int32
  }

  /// Opens another process, which is not stopped and notices nothing.
  ///
  /// Needs the permission to trace it (ptrace(2), "Ptrace access mode checking").
  package init(pid: Int32) throws(Failure) {
    var code: Int32 = 0
    guard let opened = cunwind_process_open(pid, &code) else { throw Failure(code: code) }
    directory = "/proc/\(pid)"
    isOwn = false
    cunwind = opened
  }

  deinit { if !isOwn { cunwind_process_close(cunwind) } }

  /// Whether the program that it is of has ended: the process has, or runs another one.
  var isOver: Bool { cunwind_process_is_over(cunwind) }

  /// The directory of its threads in procfs, such as `/proc/self/task`.
  ///
  /// One that is never there, where procfs shows other numbers than the process's own.
  package var threadsDirectory: String {
    showsOtherNumbers.load(ordering: .relaxed) ? directory + "/none" : directory + "/task"
  }

  /// Compares the thread ids of procfs with the own process's, and returns whether they are the same.
  ///
  /// They differ where procfs was mounted in an outer PID namespace (pid_namespaces(7)): there a number leads to another thread. Called
  /// when the watch begins, as the child of a fork may be in a new namespace.
  func checkNumbers() -> Bool {
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

  /// Opens what the calling thread needs to read the process, and runs the self-tests if none has run; again when something may
  /// have changed since.
  package func prepareThread() {
    guard isOwn else { return }
    cunwind_memory_prepare()
    _ = ownLayouts
  }

  /// Closes what the calling thread has opened.
  package func finishThread() {
    if isOwn { cunwind_memory_finish() }
  }

  /// Copies memory into `buffer`, up to the first page that cannot be read.
  ///
  /// Another thread may change or unmap the memory at any moment. Returns the number of bytes.
  package func read(_ address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    cunwind_read(cunwind, address, buffer.baseAddress, buffer.count)
  }

  // MARK: Layouts

  /// What self-tests find out about the libraries that this process has loaded.
  private final class Layouts: Sendable {
    let locks: LockLayouts
    let tasks: TaskLayout?

    init(testedIn process: ProcessHandle) {
      locks = LockLayouts(testedIn: process)
      tasks = TaskLayout(testedIn: process)
    }
  }

  /// The own process's layouts, tested at the first use on a thread that is prepared; nil for another process.
  private var ownLayouts: Layouts? {
    guard isOwn else { return nil }
    return layouts.load() ?? layouts.storeIfNil(Layouts(testedIn: self))
  }

  /// How locks are laid out, as a self-test in the own process shows; nil for another process, of which it is not known.
  package var lockLayouts: LockLayouts? { ownLayouts?.locks }

  /// How tasks are laid out, as a self-test in the own process shows; nil if it is not known.
  package var taskLayout: TaskLayout? { ownLayouts?.tasks }

  /// The threads of this library, if they are of this process.
  var monitorThreads: Set<Int32> { isOwn ? OwnThreads.current : [] }
}

extension ProcessHandle {
  /// The file that lists its control groups.
  package var controlGroups: String { directory + "/cgroup" }

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
