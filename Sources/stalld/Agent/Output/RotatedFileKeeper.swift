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
  /// Why files could not be compressed, by the output's path and their own: each reason is logged once.
  private let reported = Mutex<[String: [String: String]]>([:])

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
    // An agent that starts while this one ends has unfinished archives of its own.
    guard !isStopped.load(ordering: .relaxed) else { return }
    remove(file)
    guard file.compress == .gzip else { return }
    let before = reported.withLock { $0[file.path] ?? [:] }
    var reasons: [String: String] = [:]
    defer { reported.withLock { $0[file.path] = reasons } }
    for rotated in RotatedFile.all(besides: file.path).sorted(by: { $0.name < $1.name }) where rotated.form == .plain {
      if isStopped.load(ordering: .relaxed) { return }
      do throws(GzipFile.Failure) {
        try GzipFile.compress(rotated.path) { self.isStopped.load(ordering: .relaxed) }
      } catch {
        // It stays as it is, and is tried again with the next one.
        guard let reason = error.reason else { continue }
        reasons[rotated.path] = reason
        if before[rotated.path] != reason { say(.error, "file \(rotated.path): cannot compress: \(reason)") }
        if error.isDiskFull { return }
      }
    }
  }

  /// Removes what is left of a killed agent, and the oldest files; another program's neither count nor go.
  private func remove(_ file: AgentSettings.Output.File) {
    let all = RotatedFile.all(besides: file.path)
    for left in all where left.form == .unfinished { unlink(left.path) }
    let own = all.filter { $0.form == .plain || $0.form == .compressed && GzipFile.isOwn($0.path) }
    let kept = Set(Set(own.map(\.name)).sorted(by: >).prefix(max(0, file.keep)))
    for old in own where !kept.contains(old.name) { unlink(old.path) }
  }
}
