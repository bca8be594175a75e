import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// Watches the main dispatch queue where it is served by libdispatch's workers: in `dispatchMain()` and `@main async`, which give the
/// main thread up.
///
/// The search for who serves the queue also finds Foundation's run loop, when the service makes it after the monitor's start.
///
/// Such a queue is served by whichever worker comes by. libdispatch keeps that thread's id in the queue's state word, which is what it
/// locks the queue by. Whether this libdispatch does is checked in each beat, which knows its own thread.
final class MainQueueHeartbeat: HeartbeatSource {
  /// Who serves the queue.
  private enum Service {
    /// Nobody yet; or the main thread, in a run loop.
    static let elsewhere: UInt8 = 0
    static let workers: UInt8 = 1
    static let ended: UInt8 = 2
  }

  /// Whether the state word means what is known of it.
  private enum Trust {
    static let none: UInt8 = 0
    static let borneOut: UInt8 = 1
    static let refuted: UInt8 = 2
  }

  private let pulse: Pulse
  private let stamper: TurnStamper
  private let semaphore: WakeSemaphore
  private let service = Atomic<UInt8>(Service.elsewhere)
  private let trust = Atomic<UInt8>(Trust.none)
  private let beats = Atomic<UInt64>(0)
  private let poster: BeatPoster
  private let courier: Courier
  private let runLoop: any RunLoopSearch

  init(
    pulse: Pulse, stamper: TurnStamper, semaphore: WakeSemaphore, courier: Courier, runLoop: any RunLoopSearch
  ) {
    self.runLoop = runLoop
    poster = BeatPoster(courier: courier, pulse: pulse)
    self.courier = courier
    self.pulse = pulse
    self.stamper = stamper
    self.semaphore = semaphore
  }

  /// Prepares to find out who serves the main queue.
  ///
  /// Nothing happens in a service without libdispatch. Where the state word is not known, a block on the queue finds out; elsewhere none
  /// does: it would be work, for which a run of Foundation's loop returns.
  func prepare() {
    guard clinux_main_queue_is_here() else { return }
    // While nobody serves the queue yet, the thread that would post to it has to exist: later on nobody could make it.
    guard courier.addUser() else { return service.store(Service.ended, ordering: .sequentiallyConsistent) }
    guard MainQueueWord.current() == nil, !clinux_main_queue_is_inherited() else { return }
    post { heartbeat in
      // What the main thread serves is a run loop's: its turns are stamped by observers.
      guard clinux_gettid() != getpid() else { return }
      heartbeat.goOver()
      heartbeat.semaphore.post()
    }
  }

  var mayBegin: Bool { mayGoOver || runLoop.isSought }

  private var mayGoOver: Bool {
    service.load(ordering: .acquiring) == Service.elsewhere && MainQueueWord.current() != nil
  }

  /// As long as the queue is the main thread's, its word has that thread's id, drained or not.
  ///
  /// In the child of a fork that is the parent's id, or a worker's that the child does not have: there only a drainer that lives speaks
  /// for workers.
  func begin() {
    if runLoop.hasAppeared { courier.post { [runLoop] in runLoop.look() } }
    guard mayGoOver, let word = MainQueueWord.current(), word.drainer != getpid() else { return }
    if clinux_main_queue_is_inherited() {
      guard let drainer = word.drainer, ProcessHandle.own.hasThread(drainer) else { return }
    }
    goOver()
  }

  func update() { runLoop.update() }

  private func goOver() {
    let (isFirst, _) = service.compareExchange(
      expected: Service.elsewhere, desired: Service.workers, ordering: .sequentiallyConsistent)
    guard isFirst else { return }
    runLoop.giveUpSearch()
    stamper.goOver(to: .mainQueue)
  }

  /// Gives the search for workers up, once a run loop has turned and rests: then no thread is needed for posting.
  func giveUpSearch() {
    runLoop.giveUpSearch()
    let (isFirst, _) = service.compareExchange(
      expected: Service.elsewhere, desired: Service.ended, ordering: .sequentiallyConsistent)
    if isFirst { poster.end() }
  }

  /// Ends the watch.
  ///
  /// A block that is on the queue at this moment will do nothing.
  func end() {
    service.store(Service.ended, ordering: .sequentiallyConsistent)
    poster.end()
  }

  /// How many beats have been queued; for tests.
  var beatCount: UInt64 { beats.load(ordering: .relaxed) }

  var isBeating: Bool { service.load(ordering: .acquiring) == Service.workers }

  func beat() {
    if let word = trustedWord, word.isIdle { return }
    poster.post { [self] in
      beats.add(1, ordering: .relaxed)
      post { heartbeat in
        guard heartbeat.isBeating else { return }
        heartbeat.checkWord()
        heartbeat.pulse.idle()
      }
    }
  }

  var server: LoopServer {
    guard let word = trustedWord else { return .unknown }
    return word.drainer.map { .thread($0) } ?? .nobody
  }

  var pool: WorkerPool? { .dispatch }

  private var trustedWord: MainQueueWord? {
    trust.load(ordering: .acquiring) == Trust.borneOut ? MainQueueWord.current() : nil
  }

  /// On the queue: the word must show this thread, every time.
  private func checkWord() {
    // A worker that is known may be captured while it runs.
    ThreadEnd.prepareForCapture()
    if MainQueueWord.current()?.drainer != clinux_gettid() {
      trust.store(Trust.refuted, ordering: .releasing)
    } else {
      _ = trust.compareExchange(expected: Trust.none, desired: Trust.borneOut, ordering: .acquiringAndReleasing)
    }
  }

  private func post(_ work: @escaping @Sendable (MainQueueHeartbeat) -> Void) {
    let call = Unmanaged.passRetained(Call(heartbeat: self, work: work))
    clinux_main_queue_post(call.toOpaque()) { context in
      guard let context else { return }
      let call = Unmanaged<Call>.fromOpaque(context).takeRetainedValue()
      call.work(call.heartbeat)
    }
  }

  /// What is on the queue.
  private final class Call: Sendable {
    let heartbeat: MainQueueHeartbeat
    let work: @Sendable (MainQueueHeartbeat) -> Void

    init(heartbeat: MainQueueHeartbeat, work: @escaping @Sendable (MainQueueHeartbeat) -> Void) {
      self.heartbeat = heartbeat
      self.work = work
    }
  }
}

/// The main queue's state word (`dq_state`: libdispatch, src/queue_internal.h).
struct MainQueueWord: Equatable {
  var raw: UInt64

  // DLOCK_OWNER_MASK, DISPATCH_QUEUE_ENQUEUED, DISPATCH_QUEUE_DIRTY.
  private static let owner: UInt64 = 0x3fff_ffff
  private static let enqueued: UInt64 = 0x8000_0000
  private static let dirty: UInt64 = 0x80_0000_0000

  /// The word as it is now; nil if its place is not known.
  static func current() -> MainQueueWord? {
    var raw: UInt64 = 0
    return clinux_main_queue_state(&raw) ? MainQueueWord(raw: raw) : nil
  }

  /// The thread that drains the queue.
  var drainer: Int32? {
    let id = Int32(truncatingIfNeeded: raw & Self.owner)
    return id == 0 ? nil : id
  }

  /// Whether the queue is empty, and none of its work is running.
  var isIdle: Bool { raw & (Self.owner | Self.enqueued | Self.dirty) == 0 }
}
