import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// The metrics as a file, for node_exporter's textfile collector.
///
/// Written some time after something has changed, and again until all lines are written; on a thread of its own, so that a slow disk
/// stops nobody. An idle agent writes nothing.
final class MetricsTextfile: @unchecked Sendable {
  // @unchecked: everything but `write` is on the loop's thread alone.

  private let interval: Duration
  private let loop: Loop
  private let text: () -> [UInt8]
  private let isSettled: () -> Bool
  private let write: @Sendable ([UInt8]) -> Bool
  private let thread = PermanentThread(name: "metrics-file")
  private var timer: Loop.Timer?
  private var hasChanged = true
  /// One text at a time is on its way: a disk that hangs must not collect them.
  private var isWriting = false
  private var isStopped = false

  /// Writes the first one at once.
  ///
  /// - Parameters:
  ///   - path: Ends with `.prom`, or node_exporter does not read it.
  ///   - interval: From a change to the writing of it, at most.
  ///   - loop: The calling thread's.
  ///   - text: The metrics, asked for on the loop's thread.
  ///   - isSettled: Whether no number changes without a call of ``noteChange()``; also on the loop's thread.
  ///   - replace: Writes a file, and returns why that failed.
  ///   - didFail: Called on another thread with the reason why the file cannot be written, once until it changes.
  /// - Throws: `LoopError` if there is no thread left.
  init(
    path: String, interval: Duration, loop: Loop, text: @escaping () -> [UInt8],
    isSettled: @escaping () -> Bool = { true },
    replace: @escaping @Sendable ([UInt8], _ path: String) -> String? = MetricsTextfile.replace,
    didFail: @escaping @Sendable (String) -> Void
  ) throws {
    self.interval = interval
    self.loop = loop
    self.text = text
    self.isSettled = isSettled
    let lastReason = Mutex<String?>(nil)
    write = { bytes in
      let reason = replace(bytes, path)
      let isNew = lastReason.withLock { last in
        defer { last = reason }
        return last != reason
      }
      if let reason, isNew { didFail("\(path): \(reason)") }
      return reason == nil
    }
    try thread.start()
    writeChanges()
  }

  /// Something is worth a new text: within the interval.
  func noteChange() {
    hasChanged = true
    guard timer == nil, !isStopped else { return }
    timer = loop.perform(after: interval, tolerance: interval / 10, name: "metrics textfile") { [weak self] _ in
      self?.timer = nil
      self?.writeChanges()
    }
  }

  /// Writes what has changed, and waits until it is written or the time limit is reached.
  func stop(within limit: Duration) {
    guard !isStopped else { return }
    isStopped = true
    timer?.invalidate()
    if hasChanged { writeText() }
    let done = WakeSemaphore()
    thread.perform { done.post() }
    if done.wait(for: limit) { thread.stop() }
  }

  private func writeChanges() {
    if hasChanged, !isWriting { writeText() }
  }

  private func writeText() {
    isWriting = true
    let bytes = text()
    hasChanged = !isSettled()
    thread.perform(name: "metrics textfile") { [write, loop] in
      let isWritten = write(bytes)
      loop.perform(name: "metrics textfile") { [weak self] in self?.didWrite(isWritten) }
    }
  }

  private func didWrite(_ isWritten: Bool) {
    isWriting = false
    if hasChanged || !isWritten { noteChange() }
  }

  /// Replaces the file as a whole; why that failed, or nil.
  private static func replace(_ bytes: [UInt8], _ path: String) -> String? {
    let place = PathParts(path)
    let directory = clinux_open_directory(-1, place.directory)
    guard directory >= 0 else { return "\(SystemError(code: errno))" }
    defer { close(directory) }
    // node_exporter reads what ends with .prom, as any user.
    let code = DirectoryFiles.replace(
      place.name, in: directory, unfinished: AgentSettings.Metrics.unfinished(of: place.name), mode: 0o644, with: bytes,
      ignoresUmask: true)
    return code == 0 ? nil : "\(SystemError(code: code))"
  }
}
