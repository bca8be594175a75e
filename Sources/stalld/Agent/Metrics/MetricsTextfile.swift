import CLinux
import DescriptorIO
import Glibc
import LoopEngine

/// The metrics as a file, for node_exporter's textfile collector.
///
/// Written some time after something has changed, and not otherwise; on a thread of its own, so that a slow disk stops nobody.
final class MetricsTextfile: @unchecked Sendable {
  // @unchecked: everything but `write` is on the loop's thread alone.

  private let path: String
  private let interval: Duration
  private let loop: Loop
  private let text: () -> [UInt8]
  private let didFail: @Sendable (String) -> Void
  private let thread = PermanentThread(name: "metrics-file")
  private var timer: Loop.Timer?
  private var hasChanged = true
  private var isStopped = false

  /// Writes the first one at once.
  ///
  /// - Parameters:
  ///   - path: Ends with `.prom`, or node_exporter does not read it.
  ///   - interval: From a change to the writing of it, at most.
  ///   - loop: The calling thread's.
  ///   - text: The metrics, asked for on the loop's thread.
  ///   - didFail: Called on another thread with the reason each time that the file cannot be written.
  /// - Throws: `LoopError` if there is no thread left.
  init(
    path: String, interval: Duration, loop: Loop, text: @escaping () -> [UInt8],
    didFail: @escaping @Sendable (String) -> Void
  ) throws {
    self.path = path
    self.interval = interval
    self.loop = loop
    self.text = text
    self.didFail = didFail
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

  /// Writes what has changed, and waits until it is written.
  func stop() {
    guard !isStopped else { return }
    isStopped = true
    timer?.invalidate()
    writeChanges()
    thread.stop()
  }

  private func writeChanges() {
    guard hasChanged else { return }
    hasChanged = false
    let bytes = text()
    thread.perform(name: "metrics textfile") { [path, didFail] in
      if let reason = Self.write(bytes, to: path) { didFail("\(path): \(reason)") }
    }
  }

  /// Replaces the file as a whole; why that failed, or nil.
  private static func write(_ bytes: [UInt8], to path: String) -> String? {
    let place = PathParts(path)
    let directory = clinux_open_directory(-1, place.directory)
    guard directory >= 0 else { return "\(SystemError(code: errno))" }
    defer { close(directory) }
    // node_exporter reads what ends with .prom, as any user.
    let code = DirectoryFiles.replace(
      place.name, in: directory, unfinished: "\(place.name).new", mode: 0o644, with: bytes, ignoresUmask: true)
    return code == 0 ? nil : "\(SystemError(code: code))"
  }
}
