import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// Writes detail files on a thread of its own each, so that a disk that does not answer delays one line by ``patience``, and no other.
///
/// Belongs to the output thread.
final class DetailWriter {
  /// How long a line waits for its detail file, in nanoseconds.
  static let patience: UInt64 = 500_000_000

  private let files: FileReference
  private let written: WrittenDetails
  private var current: Attempt?

  /// `written` learns of each file.
  init(_ files: DetailFiles, written: WrittenDetails) {
    self.files = FileReference(files: files)
    self.written = written
  }

  /// Writes the file of a stall, or skips it while an earlier write hangs.
  func write(_ detail: StallDetail) {
    if let current, !current.wait(until: MonotonicClock.now()) { return }
    let attempt = Attempt()
    let (files, written) = (files, written)
    let thread = try? OwnThreads.start(name: "stall-detail") {
      if files.files.write(detail) { written.add(detail.stallID) }
      attempt.finish()
    }
    guard let thread else { return }
    clinux_thread_detach(thread)
    current = attempt
    _ = attempt.wait(until: MonotonicClock.now() + Self.patience)
  }

  // Unchecked: used by one thread at a time, since the next starts only when the one before has finished.
  private struct FileReference: @unchecked Sendable { let files: DetailFiles }

  /// The writing of one file.
  private final class Attempt: Sendable {
    private let done = WakeSemaphore()
    private let finished = Atomic<Bool>(false)

    func finish() {
      finished.store(true, ordering: .releasing)
      done.post()
    }

    /// False if it takes longer than until `deadline`.
    func wait(until deadline: UInt64) -> Bool {
      finished.load(ordering: .acquiring) || done.wait(until: deadline)
    }
  }
}
