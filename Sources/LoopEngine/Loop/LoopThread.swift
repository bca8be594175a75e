import CLinux
import PlatformLibc
import TurnSource

/// Ties loops to threads.
enum LoopThread {
  /// The main thread's loop, made on first use.
  ///
  /// Never freed. Not a constant: the child of a fork on another thread has a main thread and no loop for it.
  static var main: Loop {
    if let known = clinux_loop_get_main() { return Unmanaged<Loop>.fromOpaque(known).takeUnretainedValue() }
    return makeMain(binds: false)
  }

  /// Makes the main thread's loop, unless another thread has just made it, and announces it.
  @inline(never)
  private static func makeMain(binds: Bool) -> Loop {
    let loop = Loop(isMain: true)
    let reference = Unmanaged.passRetained(loop)
    let isFirst = clinux_loop_set_main(reference.toOpaque(), loop.inbox.lockWord)
    if !isFirst { reference.release() }
    let kept = isFirst ? loop : main
    // Before it is announced: a monitor stamps it at once.
    if binds { bind(kept) }
    if isFirst { TurnSourceRegistry.announceMain(kept) }
    return kept
  }

  /// A key whose destructor ends the loop of a thread that ends.
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let result = pthread_key_create(&key) { raw in
      guard let raw else { return }
      LoopThread.end(raw)
    }
    precondition(result == 0, "no pthread key is available for the loops of threads")
    return key
  }()

  static var isMain: Bool { clinux_gettid() == getpid() }

  /// Ends the calling thread's loop before the thread does.
  static func endCurrent() {
    guard let raw = clinux_loop_get_current() else { return }
    pthread_setspecific(key, nil)
    end(raw)
  }

  private static func end(_ raw: UnsafeMutableRawPointer) {
    let loop = Unmanaged<Loop>.fromOpaque(raw)
    loop.takeUnretainedValue().tearDown()
    clinux_loop_set_current(nil)
    clinux_loop_set_current_lock(nil)
    loop._withUnsafeGuaranteedRef { $0.lateJobs.begin(of: $0) }
    loop.release()
  }

  static func makeCurrent() -> Loop {
    if isMain && clinux_loop_get_main() == nil { return makeMain(binds: true) }
    let loop = isMain ? main : Loop(isMain: false)
    bind(loop)
    return loop
  }

  /// Makes the loop the calling thread's.
  private static func bind(_ loop: Loop) {
    loop.published.bindToThisThread()
    let raw = Unmanaged.passRetained(loop).toOpaque()
    clinux_loop_set_current(raw)
    clinux_loop_set_current_lock(loop.inbox.lockWord)
    pthread_setspecific(key, raw)
  }
}
