import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// Keeps the detail files of stalls, `ID.USER.json`, on a thread of its own; it deletes old ones by
/// age, by number and by total size.
///
/// Files are not fsync'ed. One that cannot be written is counted and not tried again: the report itself is elsewhere.
final class DetailStore: Sendable {
  /// What has become of details.
  struct Counters: Sendable, Equatable {
    var written: UInt64 = 0
    /// Could not be written, or came too fast.
    var dropped: UInt64 = 0
    /// Old files that were deleted.
    var removed: UInt64 = 0
    var files = 0
    var bytes = 0
  }

  private struct Shared {
    var counters = Counters()
    var failure: String?
    /// Bytes that wait for the disk.
    var pending = SharedAllowance<DetailFolder.Share>()

    /// Of a user, what is left of all; of one of its units, what is left of the user's half.
    ///
    /// Unlike ``SharedAllowance/allows(_:for:limit:)``, this lets a user or unit with nothing
    /// pending have one file that may take all that is left.
    func hasRoom(for bytes: Int, of share: DetailFolder.Share) -> Bool {
      let ofUser = pending.taken.reduce(0) { $0 + ($1.key.user == share.user ? $1.value : 0) }
      let ofUnit = pending.taken[share] ?? 0
      return pending.total + bytes <= DetailStore.pendingLimit
        && (ofUser == 0 || ofUser + bytes <= DetailStore.pendingLimit - pending.total)
        && (ofUnit == 0 || ofUnit + bytes <= DetailStore.pendingLimit / 2 - ofUser)
    }
  }

  /// What may wait for the disk.
  private static let pendingLimit = 16 << 20

  private let thread = PermanentThread(name: "stalld-details")
  private let shared = Mutex(Shared())
  private let directory: DetailDirectory
  /// What an earlier run of the agent has kept by ``keepUsage(_:)``.
  let keptUsage: String

  /// Opens the directory, and reads what is there.
  ///
  /// - Throws: ``OutputError`` if the directory cannot be used.
  init(settings: AgentSettings.Details, say: @escaping OutputWriter.Say = AgentLog.sayOfOutput) throws {
    try thread.start()
    directory = DetailDirectory(say: say)
    let directory = directory
    do {
      keptUsage = try thread.loop!.performAndWait(name: "detail files are read") {
        ThreadSignals.block([SIGXFSZ])
        try directory.use(settings)
        return directory.keptUsage()
      }
    } catch {
      thread.stop()
      throw error
    }
    publish()
  }

  /// Keeps a text for the next run of the agent, in the place of the one before.
  func keepUsage(_ text: String) {
    thread.perform(name: "what was written today is kept") { [self] in
      directory.keepUsage(text)
      publish()
    }
  }

  /// Writes the file of a user's stall, in the place of the one that it had.
  ///
  /// It counts as one of `share`. On any thread, without waiting. `completion` is called, on the store's thread or at once, with the file's path, or nil if it could not be
  /// written.
  func write(
    id: String, of user: UInt32, in share: DetailFolder.Share, _ bytes: [UInt8],
    completion: @escaping @Sendable (String?) -> Void = { _ in }
  ) {
    let hasRoom = shared.withLock { shared in
      guard DetailFolder.isID(id.utf8), shared.hasRoom(for: bytes.count, of: share) else {
        shared.counters.dropped += 1
        return false
      }
      shared.pending.add(bytes.count, for: share)
      return true
    }
    let isTaken =
      hasRoom
      && thread.perform(name: "a detail file is written") { [self] in
        let path = directory.write(id, of: user, in: share, bytes)
        shared.withLock { $0.pending.add(-bytes.count, for: share) }
        publish()
        completion(path)
      }
    if !isTaken { completion(nil) }
  }

  /// Whether the directory can be used, which it is made for; `completion` is called on the store's thread, with an error if not.
  func test(_ settings: AgentSettings.Details, completion: @escaping @Sendable (OutputError?) -> Void) {
    thread.perform(name: "the directory of details is tested") { [directory] in
      do throws(OutputError) {
        try directory.test(settings.directory)
        completion(nil)
      } catch {
        completion(error)
      }
    }
  }

  /// Changes the directory or the limits; `completion` is called on the store's thread, with an error if all is as before.
  func replace(
    _ settings: AgentSettings.Details, completion: @escaping @Sendable (OutputError?) -> Void = { _ in }
  ) {
    thread.perform(name: "detail files move") { [self] in
      do throws(OutputError) {
        try directory.use(settings)
        publish()
        completion(nil)
      } catch {
        completion(error)
      }
    }
  }

  func counters() -> Counters { shared.withLock { $0.counters } }

  /// Why the last file could not be written; nil if it was.
  var failure: String? { shared.withLock { $0.failure } }

  /// Waits until what was asked for is written, or the time is over.
  func stop(within limit: Duration) {
    let done = WakeSemaphore()
    thread.perform { done.post() }
    if done.wait(for: limit) { thread.stop() }
  }

  private func publish() {
    shared.withLock { shared in
      shared.counters.written = directory.written
      shared.counters.removed = directory.removed
      shared.counters.dropped += directory.takeFailures()
      shared.counters.files = directory.count
      shared.counters.bytes = directory.bytes
      shared.failure = directory.failure
    }
  }
}
