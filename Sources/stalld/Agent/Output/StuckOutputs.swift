import LoopEngine

/// Logs once that an output is stuck while lines wait for it, and once that it works again.
///
/// Belongs to the agent's loop, so that it does not hang with the output. Its timer is there only while lines wait.
final class StuckOutputs {
  private let loop: Loop
  private let counters: () -> OutputCounters
  private let say: OutputWriter.Say
  private var timer: Loop.Timer?
  /// Since when nothing was written, by output.
  private var stuck: [String: Loop.Instant] = [:]

  init(loop: Loop, say: @escaping OutputWriter.Say, counters: @escaping () -> OutputCounters) {
    self.loop = loop
    self.say = say
    self.counters = counters
  }

  /// Lines have been given to the outputs.
  func linesWait() { if timer == nil { check(after: OutputCounters.Output.patience) } }

  /// Every required output has all lines.
  func linesAreWritten() {
    guard timer != nil, stuck.isEmpty, counters().outputs.allSatisfy({ $0.queuedLines == 0 }) else { return }
    timer?.invalidate()
    timer = nil
  }

  private func check(after delay: Duration) {
    let checker = UncheckedReference(self)
    timer = loop.perform(after: delay, tolerance: delay / 10, name: "outputs that hang") { _ in
      checker.object?.check()
    }
  }

  private func check() {
    timer = nil
    let outputs = counters().outputs
    for output in outputs {
      let since = Loop.Instant.now.advanced(by: .zero - output.waiting)
      if output.isStuck && stuck[output.name] == nil && !output.isFailing {
        stuck[output.name] = since
        say(.error, "\(output.name): \(output.state); \(output.queuedLines) lines are queued")
      } else if !output.isStuck, let began = stuck.removeValue(forKey: output.name) {
        say(.notice, "\(output.name): works again after \(began.duration(to: .now).components.seconds) s")
      }
    }
    let names = Set(outputs.map(\.name))
    stuck = stuck.filter { names.contains($0.key) }
    guard let longest = outputs.filter({ $0.queuedLines > 0 }).map(\.waiting).max() else { return }
    check(after: max(.seconds(1), OutputCounters.Output.patience - longest))
  }
}
