import CUnwind
import Glibc

/// Tells the watches of a thread's loops that the thread ends.
///
/// By the destructor of a thread-specific value, which the C library calls on the thread itself, however the thread ends; with the process
/// nothing is called.
enum ThreadEnd {
  /// The watches of one thread, which alone uses it.
  private final class Watches {
    var list: [LoopWatch] = []
  }

  /// Nil if there is no key left: then a loop has to be let go by hand.
  private static let key: pthread_key_t? = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key) { raw in
      guard let raw else { return }
      for watch in Unmanaged<Watches>.fromOpaque(raw).takeRetainedValue().list { watch.threadEnds() }
      cunwind_thread_ends()
    }
    return code == 0 ? key : nil
  }()

  /// Tells the watch when the calling thread ends.
  static func tell(_ watch: LoopWatch) {
    guard let watches = own() else { return }
    // A thread that lives long may have had many.
    watches.list.removeAll { !$0.isWatching }
    watches.list.append(watch)
  }

  /// Makes the calling thread ready to be captured while it runs, and releases what it was given for that when it ends.
  static func prepareForCapture() { if cunwind_prepare_thread() { _ = own() } }

  private static func own() -> Watches? {
    guard let key else { return nil }
    let watches: Watches
    if let raw = pthread_getspecific(key) {
      watches = Unmanaged<Watches>.fromOpaque(raw).takeUnretainedValue()
    } else {
      watches = Watches()
      pthread_setspecific(key, Unmanaged.passRetained(watches).toOpaque())
    }
    return watches
  }
}
