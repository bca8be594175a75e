import CUnwind
import PlatformLibc

/// Wants to know that a thread ends.
protocol ThreadEndObserver: AnyObject {
  /// Whether it still wants to.
  var isWatching: Bool { get }

  /// The thread ends; called on it.
  func threadEnds()
}

/// Notifies observers that a thread ends.
///
/// By the destructor of a thread-specific value, which the C library calls on the thread itself, however the thread ends; with the process
/// nothing is called.
enum ThreadEnd {
  /// The observers of one thread, which alone uses it.
  private final class Observers {
    var list: [any ThreadEndObserver] = []
  }

  /// Nil if there is no key left: then a loop has to be unregistered by hand.
  private static let key: pthread_key_t? = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key) { raw in
      guard let raw else { return }
      for observer in Unmanaged<Observers>.fromOpaque(raw).takeRetainedValue().list { observer.threadEnds() }
      cunwind_thread_ends()
    }
    return code == 0 ? key : nil
  }()

  /// Notifies the observer when the calling thread ends.
  static func notify(_ observer: any ThreadEndObserver) {
    guard let observers = own() else { return }
    // A thread that lives long may have had many.
    observers.list.removeAll { !$0.isWatching }
    observers.list.append(observer)
  }

  /// Makes the calling thread ready to be captured while it runs, and releases what it was given for that when it ends.
  static func prepareForCapture() { if cunwind_prepare_thread() { _ = own() } }

  private static func own() -> Observers? {
    guard let key else { return nil }
    let observers: Observers
    if let raw = pthread_getspecific(key) {
      observers = Unmanaged<Observers>.fromOpaque(raw).takeUnretainedValue()
    } else {
      observers = Observers()
      pthread_setspecific(key, Unmanaged.passRetained(observers).toOpaque())
    }
    return observers
  }
}
