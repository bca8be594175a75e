import CLinux
import Glibc
import Synchronization

/// The threads of this library, which no report tells of.
enum OwnThreads {
  private static let ids = Mutex<Set<Int32>>([])

  /// Counts the calling thread among them until `body` returns.
  static func including<Result>(_ body: () -> Result) -> Result {
    let id = clinux_gettid()
    ids.withLock { _ = $0.insert(id) }
    defer { ids.withLock { _ = $0.remove(id) } }
    return body()
  }

  /// Their ids at this moment.
  static var current: Set<Int32> { ids.withLock { $0 } }

  /// Makes a thread for `body`, and counts it among them.
  ///
  /// It inherits the mask: no signal of the host's is ever delivered to it. Those that a crash raises are the thread's own, and Swift's
  /// crash handler stops the other threads by SIGPROF to print their backtraces. Throws if there is none to be had.
  static func start(name: StaticString, _ body: @escaping @Sendable () -> Void) throws(StallMonitorError) -> pthread_t {
    var all = sigset_t()
    var previous = sigset_t()
    sigfillset(&all)
    for number in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF] { sigdelset(&all, number) }
    pthread_sigmask(SIG_SETMASK, &all, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
    let work = Unmanaged.passRetained(Work(name: name, body: body))
    var handle = pthread_t()
    let code = pthread_create(
      &handle, nil,
      { argument in
        let work = Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue()
        work.name.withUTF8Buffer {
          $0.withMemoryRebound(to: CChar.self) { clinux_set_thread_name($0.baseAddress!) }
        }
        OwnThreads.including(work.body)
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      work.release()
      throw .noThread(code: code)
    }
    return handle
  }

  /// What a thread is made for.
  private final class Work: Sendable {
    let name: StaticString
    let body: @Sendable () -> Void

    init(name: StaticString, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }
}
