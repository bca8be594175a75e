import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture

/// Puts whole lines onto one destination, and never waits for its reader.
///
/// A line is one write, or several to a pipe that cannot be opened again (``LineDescriptor``). What the destination does not take now
/// waits in a bounded queue; what does not fit is dropped, oldest first, and counted. Used by one thread, the output thread.
final class LineWriter: ReportSink {
  /// Lines kept while the destination takes none: at most 2 MB.
  static let queueLimit = 256

  private let destination: Destination
  private var output: LineDescriptor?
  private var queue: [OutgoingLine] = []
  private var droppedSinceTaken: UInt64 = 0

  /// Where lines go.
  enum Destination {
    /// A file of this process: appended to, and reopened when it was renamed or removed.
    case file(path: String)
    /// A descriptor of the service.
    case descriptor(Int32)
  }

  init(_ destination: Destination) { self.destination = destination }

  /// Opens the destination.
  ///
  /// Returns the errno value if that fails.
  func open() -> Int32? {
    switch destination {
    case .file(let path):
      let flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
      let number = clinux_open(path, flags, 0o640)
      guard number >= 0, let opened = LineDescriptor(owning: number) else { return errno }
      output = opened
    case .descriptor(let original):
      // If it is a file, the service writes to it as well.
      guard let opened = LineDescriptor(sharing: original, isExclusive: false) else { return errno }
      output = opened
    }
    return nil
  }

  /// The descriptor that poll(2) can wait for until there is space; -1 if there is none.
  var pollableDescriptor: Int32 { output?.pollable ?? -1 }

  /// How many bytes have been written; shows whether a flush has made progress.
  private(set) var bytesSent = 0

  /// Takes a line, with its newline, and sends what can be sent.
  func write(_ line: OutgoingLine) {
    if queue.count >= Self.queueLimit {
      // The first may be out in part, and must be finished.
      lose(queue.remove(at: output?.isMidLine == true ? 1 : 0))
    }
    queue.append(line)
    flush()
  }

  /// Sends what waits, as far as the destination takes it.
  func flush() {
    guard !queue.isEmpty else { return }
    reopenIfNeeded()
    var done = 0
    while done < queue.count, send(queue[done]) { done += 1 }
    queue.removeFirst(done)
  }

  var wantsFlush: Bool { !queue.isEmpty }

  var isSettled: Bool { queue.isEmpty }

  func settle(within limit: UInt64) { settle(until: MonotonicClock.now() + limit) }

  /// Sends what waits until nothing is left, or the time has come.
  func settle(until deadline: UInt64) {
    while wantsFlush, MonotonicClock.now() < deadline {
      usleep(10_000)
      flush()
    }
  }

  func close() { flush() }

  func takeDropped() -> UInt64 {
    defer { droppedSinceTaken = 0 }
    return droppedSinceTaken
  }

  // MARK: One line

  private func lose(_ lost: OutgoingLine) { droppedSinceTaken += 1 + lost.droppedBefore }

  /// Sends a line; true if it is done with.
  private func send(_ line: OutgoingLine) -> Bool {
    guard let output, output.isIntact else {
      switch destination {
      case .file: return false
      case .descriptor:
        // A service that closes all descriptors has closed the destination; nobody will ever read the line.
        lose(line)
        output?.abandonLine()
        return true
      }
    }
    let before = output.bytesWritten
    let outcome = output.write(line.bytes)
    bytesSent += output.bytesWritten - before
    switch outcome {
    case .written: return true
    case .failed(let code) where LineDescriptor.isEndOfReader(code):
      lose(line)
      output.abandonLine()
      return true
    case .full, .failed: return false
    }
  }

  /// Opens the destination again if it was renamed or removed, or if the service has closed our descriptor.
  private func reopenIfNeeded() {
    switch destination {
    case .descriptor:
      // The service may have closed our number, and not its own.
      _ = output?.restore()
    case .file(let path):
      guard let output, output.isIntact else {
        _ = open()
        return
      }
      // The rest of a line belongs to the file that has its beginning. The old file is better than none.
      if !output.isMidLine, !output.isFile(at: path) { _ = open() }
    }
  }
}
