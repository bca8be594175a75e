import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// Keeps the detail files of stalls, `ID.USER.json`, on a thread of its own; old ones give way, by age and by bytes.
///
/// Files are not fsync'ed. One that cannot be written is counted and not tried again: the report itself is elsewhere.
final class DetailStore: Sendable {
  /// What has become of details.
  struct Counters: Sendable, Equatable {
    var written: UInt64 = 0
    /// Could not be written, or came too fast.
    var dropped: UInt64 = 0
    /// Old ones that gave way.
    var removed: UInt64 = 0
    var files = 0
    var bytes = 0
  }

  private struct Shared {
    var counters = Counters()
    var pendingBytes = 0
    var pendingOfOwner: [UInt32: Int] = [:]
  }

  /// What may wait for the disk, of one owner as much as is left.
  private static let pendingLimit = 16 << 20

  private let thread = PermanentThread(name: "stalld-details")
  private let shared = Mutex(Shared())
  private let directory: DetailDirectory
  /// What an earlier run of the agent has kept by ``keepUsage(_:)``.
  let keptUsage: String

  /// Opens the directory, and looks what is there.
  ///
  /// - Throws: ``OutputError`` if the directory cannot be used.
  convenience init(settings: AgentSettings.Details) throws {
    try self.init(settings: settings, say: { AgentLog.say($0, $0 == .error ? .outputFailed : nil, $1) })
  }

  init(settings: AgentSettings.Details, say: @escaping OutputWriter.Say) throws {
    try thread.start()
    directory = DetailDirectory(say: say)
    let directory = directory
    do {
      keptUsage = try thread.loop!.performAndWait(name: "detail files are looked at") {
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
    thread.perform(name: "what was written today is kept") { [self] in directory.keepUsage(text) }
  }

  /// Writes the file of a user's stall, in the place of the one that it had.
  ///
  /// The file has the number of `user` in its name, and counts in the share of `owner` (``Peer/owner``).
  /// On any thread, without waiting. `completion` is called, on the store's thread or at once, with the file's path, or nil if it could not be
  /// written.
  func write(
    id: String, of user: UInt32, owner: UInt32, _ bytes: [UInt8],
    completion: @escaping @Sendable (String?) -> Void = { _ in }
  ) {
    let hasRoom = shared.withLock { shared in
      let own = shared.pendingOfOwner[owner, default: 0]
      guard DetailFolder.isID(id.utf8), shared.pendingBytes + bytes.count <= Self.pendingLimit,
        own == 0 || own + bytes.count <= Self.pendingLimit - shared.pendingBytes
      else {
        shared.counters.dropped += 1
        return false
      }
      shared.pendingBytes += bytes.count
      shared.pendingOfOwner[owner] = own + bytes.count
      return true
    }
    let isTaken =
      hasRoom
      && thread.perform(name: "a detail file is written") { [self] in
        let path = directory.write(id, of: user, owner: owner, bytes)
        shared.withLock { shared in
          shared.pendingBytes -= bytes.count
          let left = shared.pendingOfOwner[owner, default: 0] - bytes.count
          shared.pendingOfOwner[owner] = left > 0 ? left : nil
        }
        publish()
        completion(path)
      }
    if !isTaken { completion(nil) }
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

  /// Waits until what was asked for is written, or the time is over.
  func stop(within limit: Duration) {
    let done = TimedSemaphore()
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
    }
  }
}
