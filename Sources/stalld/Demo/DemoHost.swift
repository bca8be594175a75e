import CLinux
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// The process that `stalld demo` watches: a service on `Loop.main` with healthy work, and four functions that block it.
///
/// The functions are public, so that a static executable exports them. It is installed without its symbol table, and its
/// reports still have their names.
public enum DemoHost {
  /// Runs the service to its end.
  ///
  /// Its report lines go to standard output.
  static func run() throws {
    var configuration = StallMonitorConfiguration()
    configuration.serviceName = "stalld-demo"
    let monitor = try StallMonitor.start(configuration)
    let loop = Loop.main
    let plan = Mutex(PlannedStall.allCases[...])
    // Healthy turns before, between and after the stalls: together far longer than the threshold, none of them alone.
    loop.add(Loop.Timer(after: .milliseconds(5), repeats: true, name: "healthy work") { _ in healthyWork() })
    loop.add(
      Loop.Timer(after: .milliseconds(400), repeats: true, name: "the next stall") { _ in
        guard let stall = plan.withLock({ $0.popFirst() }) else { return loop.stop() }
        stall.perform()
      })
    loop.run()
    monitor.stop()
  }

  /// Up to 20 ms of work, far below any sensible threshold.
  @inline(never)
  static func healthyWork() {
    let end = ContinuousClock.now + .milliseconds(Int.random(in: 0...20))
    while ContinuousClock.now < end {}
  }

  /// Blocks by computing.
  @inline(never)
  public static func computeWithoutPause() {
    // Without code of Swift's runtime: a static executable has that without names.
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    let end = time.tv_sec * 1_000_000_000 + time.tv_nsec + Int(PlannedStall.computing.duration / .nanoseconds(1))
    while time.tv_sec * 1_000_000_000 + time.tv_nsec < end { clock_gettime(CLOCK_MONOTONIC, &time) }
  }

  /// Blocks by sleeping.
  @inline(never)
  public static func sleepOnTheMainLoop() {
    var time = timespec(tv_sec: 0, tv_nsec: Int(PlannedStall.sleeping.duration / .nanoseconds(1)))
    nanosleep(&time, nil)
  }

  /// Blocks by reading from a pipe whose writer takes its time.
  @inline(never)
  public static func readFromASlowPeer() {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return }
    let (readEnd, writeEnd) = (ends[0], ends[1])
    let peer = PeerThread(name: "slow-peer") {
      pause(for: PlannedStall.reading.duration)
      var byte: UInt8 = 1
      write(writeEnd, &byte, 1)
    }
    var byte: UInt8 = 0
    read(readEnd, &byte, 1)
    peer.join()
    close(readEnd)
    close(writeEnd)
  }

  /// Blocks by taking a lock that another thread holds.
  @inline(never)
  public static func waitForABusyLock() {
    let lock = DemoLock()
    let holder = PeerThread(name: "lock-keeper") { keepTheLock(lock) }
    lock.waitUntilHeld()
    pthread_mutex_lock(lock.mutex)
    pthread_mutex_unlock(lock.mutex)
    holder.join()
  }

  @inline(never)
  private static func keepTheLock(_ lock: DemoLock) {
    pthread_mutex_lock(lock.mutex)
    lock.announce()
    pause(for: PlannedStall.locking.duration)
    pthread_mutex_unlock(lock.mutex)
  }

  private static func pause(for duration: Duration) {
    var time = timespec(tv_sec: 0, tv_nsec: Int(duration / .nanoseconds(1)))
    nanosleep(&time, nil)
  }
}

/// A mutex of the C library, which knows its owner.
final class DemoLock: @unchecked Sendable {  // The mutex is its own synchronization; `held` is atomic.
  let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let held = Atomic<Bool>(false)

  init() { pthread_mutex_init(mutex, nil) }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  func announce() { held.store(true, ordering: .releasing) }
  func waitUntilHeld() { while !held.load(ordering: .acquiring) { sched_yield() } }
}

/// A thread that does one thing and is waited for.
final class PeerThread {
  private var handle = pthread_t()

  init(name: String, _ body: @escaping @Sendable () -> Void) {
    let boxed = Unmanaged.passRetained(Body(name: name, run: body))
    pthread_create(
      &handle, nil,
      { argument in
        let body = Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
        clinux_set_thread_name(body.name)
        body.run()
        return nil
      }, boxed.toOpaque())
  }

  func join() { pthread_join(handle, nil) }

  private final class Body {
    let name: String
    let run: @Sendable () -> Void

    init(name: String, run: @escaping @Sendable () -> Void) {
      self.name = name
      self.run = run
    }
  }
}
