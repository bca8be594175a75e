import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import Synchronization

/// Compresses rotated files and removes the oldest, on a thread of low priority.
///
/// What is there decides, and not what was asked: so a start finishes what the end of the last run has left.
final class RotatedFileKeeper: Sendable {
  private let thread = PermanentThread(name: "stalld-rotated")
  private let isStopped = Atomic<Bool>(false)
  private let say: OutputWriter.Say

  init(say: @escaping OutputWriter.Say) { self.say = say }

  /// Does what is to be done for a file's rotated ones.
  func lookAfter(_ file: AgentSettings.Output.File) {
    guard !isStopped.load(ordering: .relaxed) else { return }
    if !thread.isRunning {
      guard (try? thread.start()) != nil else { return }
      thread.perform {
        ThreadSignals.block([SIGXFSZ])
        // Of the thread alone, on Linux.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(clinux_gettid()), 19)
      }
    }
    thread.perform(name: "rotated files") { [self] in work(file) }
  }

  /// Cancels the compression in progress; the next start repeats it.
  func stop() { isStopped.store(true, ordering: .relaxed) }

  private func work(_ file: AgentSettings.Output.File) {
    remove(file)
    guard file.compress == .gzip else { return }
    for rotated in RotatedFile.all(besides: file.path).sorted(by: { $0.name < $1.name }) where rotated.form == .plain {
      if isStopped.load(ordering: .relaxed) { return }
      do throws(GzipFile.Failure) {
        try GzipFile.compress(rotated.path) { self.isStopped.load(ordering: .relaxed) }
      } catch {
        // It stays as it is, and is tried again with the next one.
        if let reason = error.reason { say(.error, "file \(rotated.path): cannot compress: \(reason)") }
        return
      }
    }
  }

  private func remove(_ file: AgentSettings.Output.File) {
    var all = RotatedFile.all(besides: file.path)
    let compressed = Set(all.lazy.filter { $0.form == .compressed }.map(\.name))
    // A compressed file gets its name when it is whole, so beside it the plain one is no longer needed.
    for unneeded in all
    where unneeded.form == .unfinished || unneeded.form == .plain && compressed.contains(unneeded.name) {
      unlink(unneeded.path)
    }
    all.removeAll { $0.form == .unfinished }
    let kept = Set(Set(all.map(\.name)).sorted(by: >).prefix(max(0, file.keep)))
    for old in all where !kept.contains(old.name) { unlink(old.path) }
  }
}
