import Glibc
import LoopEngine
import Synchronization

/// Something that closures on several threads write to and a test reads.
final class Log<Element: Sendable>: @unchecked Sendable {
  // A pthread mutex, which thread sanitizer understands; it can't see into `Mutex` and calls each use a race.
  private var mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private var storage: [Element] = []

  init() {
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    mutex.deallocate()
  }

  private func withLock<Result>(_ body: () -> Result) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return body()
  }

  func append(_ element: Element) {
    withLock { storage.append(element) }
  }

  /// What there is, and nothing is there any more.
  func takeAll() -> [Element] {
    withLock {
      defer { storage = [] }
      return storage
    }
  }

  var all: [Element] { withLock { storage } }
  var count: Int { withLock { storage.count } }
}

/// A thread with a function, joined by `join()`.
final class TestThread: @unchecked Sendable {
  // @unchecked: the handle is written before other code has the object.
  private var handle = pthread_t()

  init(_ body: @escaping @Sendable () -> Void) {
    final class Box {
      let body: @Sendable () -> Void; init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    let raw = Unmanaged.passRetained(Box(body)).toOpaque()
    pthread_create(
      &handle, nil,
      { raw in
        Unmanaged<Box>.fromOpaque(raw!).takeRetainedValue().body()
        return nil
      }, raw)
  }

  func join() {
    pthread_join(handle, nil)
  }
}

/// Runs a function on a fresh thread, with a fresh loop, and gives back its result.
func onFreshLoop<T: Sendable>(_ body: @escaping @Sendable (Loop) throws -> T) throws -> T {
  let result = Log<Result<T, any Error>>()
  TestThread { result.append(Result { try body(Loop.current) }) }.join()
  return try result.all[0].get()
}

extension Loop.Mode {
  static let tests = Loop.Mode("tests")
  static let other = Loop.Mode("other")
}

/// Both ends of a pipe.
///
/// Closed on exec, as all descriptors here: tests beside this one start programs, and a copy that such a program has keeps an end open.
struct Pipe {
  let reading: Int32
  let writing: Int32

  init() {
    var ends: [Int32] = [0, 0]
    precondition(Glibc.pipe(&ends) == 0)
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    reading = ends[0]
    writing = ends[1]
  }

  func write(_ byte: UInt8 = 1) {
    var byte = byte
    _ = Glibc.write(writing, &byte, 1)
  }

  func read() {
    var byte: UInt8 = 0
    _ = Glibc.read(reading, &byte, 1)
  }

  func close() {
    Glibc.close(reading)
    Glibc.close(writing)
  }
}

/// fork(), which is hidden from Swift; the symbol is not.
func forkProcess() -> pid_t {
  typealias Fork = @convention(c) () -> pid_t
  return unsafeBitCast(dlsym(nil, "fork"), to: Fork.self)()
}

/// Whether a child process exits with 0; waits for its end.
func succeeds(_ child: pid_t) -> Bool {
  var status: Int32 = 0
  while waitpid(child, &status, 0) < 0 { guard errno == EINTR else { return false } }
  return status == 0
}

/// Keeps the processor until a date.
func spin(until date: Loop.Instant) {
  while Loop.Instant.now < date {}
}

/// Another descriptor of the same open file.
func duplicate(_ descriptor: Int32) -> Int32 { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }

/// Sleeps for a tenth of a millisecond, or as long as it says.
func sleepBriefly(microseconds: UInt32 = 100) {
  usleep(microseconds)
}

/// How often a thread of this process has left its core voluntarily.
func contextSwitches(of thread: Int32) -> String {
  guard let file = fopen("/proc/self/task/\(thread)/status", "r") else { return "" }
  defer { fclose(file) }
  var line = [CChar](repeating: 0, count: 256)
  while fgets(&line, 256, file) != nil {
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    if text.hasPrefix("voluntary_ctxt_switches") { return text }
  }
  return ""
}

/// Whether a thread of this process is asleep (state S of proc_pid_stat(5)).
func isAsleep(_ thread: Int32) -> Bool {
  guard let file = fopen("/proc/self/task/\(thread)/stat", "r") else { return false }
  defer { fclose(file) }
  var line = [CChar](repeating: 0, count: 512)
  guard fgets(&line, 512, file) != nil else { return false }
  let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  return text.split(separator: ")").last?.hasPrefix(" S") == true
}

/// How many descriptors this process has open.
func openDescriptors() -> Int {
  guard let directory = opendir("/proc/self/fd") else { return -1 }
  defer { closedir(directory) }
  var count = 0
  while readdir(directory) != nil { count += 1 }
  return count
}

/// Says when it is freed.
final class Token: Sendable {
  private let onEnd: @Sendable () -> Void

  init(_ onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }

  deinit { onEnd() }
}
