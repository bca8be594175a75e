import CLinux
import PlatformLibc
import StallCapture

extension OwnThreads {
  /// A thread could not be made.
  struct Failure: Error {
    /// An errno value.
    var code: Int32
  }

  /// Starts a thread that runs `body`.
  ///
  /// The thread has the descriptor table of the thread that starts it: a thread that runs code of the service, or wakes its queues, must be
  /// started by one of the service's. It blocks all signals but those that a crash raises, and SIGPROF, by which Swift's crash handler stops
  /// the other threads. Of these, it blocks those that the calling thread blocks, which the service may read by signalfd(2) or sigwait(3);
  /// and SIGPROF if the process has a handler for it (``ProfilingSignal``).
  ///
  /// A thread `forService` runs code of the service, or wakes its queues. libdispatch may make a worker on it, which inherits what libdispatch
  /// itself does not block: SIGPIPE. Such a thread does not block it either, unless the calling thread does.
  /// - Throws: If the thread cannot be created.
  static func start(
    name: StaticString, forService: Bool = false, _ body: @escaping @Sendable () -> Void
  ) throws(Failure) -> clinux_thread_t {
    var all = sigset_t()
    var previous = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, nil, &previous)
    for number in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF]
    where sigismember(&previous, number) == 0 && !(number == SIGPROF && ProfilingSignal.isHandled) {
      sigdelset(&all, number)
    }
    if forService, sigismember(&previous, SIGPIPE) == 0 { sigdelset(&all, SIGPIPE) }
    pthread_sigmask(SIG_SETMASK, &all, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
    let work = Unmanaged.passRetained(Work(name: name, table: clinux_descriptor_table(), body: body))
    var handle = clinux_thread_t()
    let code = clinux_thread_create(
      &handle, clinux_thread_stack_size(leastStack),
      { argument in
        clinux_fork_monitor_thread_begins()
        defer { clinux_fork_monitor_thread_rests() }
        let work = Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue()
        clinux_inherit_descriptor_table(work.table)
        AvailableMemory.wait()
        work.name.withUTF8Buffer {
          $0.withMemoryRebound(to: CChar.self) { clinux_set_thread_name($0.baseAddress!) }
        }
        OwnThreads.including(work.body)
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      work.release()
      throw Failure(code: code)
    }
    return handle
  }

  // libdw needs more than 128 KiB to read lines. 2 MiB is the C library's default where RLIMIT_STACK has no limit.
  private static let leastStack = 2 << 20

  /// Starts a thread with a descriptor table of its own, where the kernel allows that.
  ///
  /// The table holds nothing of the service's but `kept`. Such a thread calls no code of the service,
  /// starts no thread for it, and enqueues nothing on its queues.
  static func startApart(
    name: StaticString, keeping kept: Int32? = nil, _ body: @escaping @Sendable () -> Void
  ) throws(Failure) -> clinux_thread_t {
    try start(name: name) {
      _ = clinux_enter_own_descriptor_table(kept ?? -1)
      body()
    }
  }

  /// Runs code of the service's, for which no fork waits.
  static func runForService(_ body: () -> Void) {
    let isOwn = clinux_fork_monitor_thread_leaves()
    defer { if isOwn { clinux_fork_monitor_thread_begins() } }
    body()
  }

  /// What a thread is made for.
  private final class Work: Sendable {
    let name: StaticString
    let table: UInt32
    let body: @Sendable () -> Void

    init(name: StaticString, table: UInt32, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.table = table
      self.body = body
    }
  }
}
