extension Report {
  /// One sentence for people.
  package var message: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    let (subject, did, done) = actor
    let what =
      switch event {
      case .started, .ongoing: "\(subject) has \(done) for \(milliseconds) ms"
      // A heartbeat is posted, and a blocked task found by a scan, at some time into the stall.
      case .ended where loop.phase == .heartbeat:
        "\(subject) \(did) for at least \(milliseconds) ms"
      case .ended: "\(subject) \(did) for \(milliseconds) ms"
      case .fatal: "\(subject) had \(done) for at least \(milliseconds) ms"
      case .suppressed: "\(subject) \(did) \(tally?.sentence ?? "again")"
      }
    let place = culprit.map { " in " + $0.place } ?? ""
    let end = event == .fatal ? " when the process ended" : ""
    let action = isAborting ? "; the monitor aborts the process, as it is configured to" : ""
    let waiting = isOfTask && verdict.evidence.starves ? "; other tasks waited for a thread" : ""
    let tail = action + waiting
    return "\(what)\(place)\(end): \(verdict.sentence)".limited(to: 600 - tail.utf8.count) + tail
  }

  /// Whether the report is of a task that held its thread, and not of a loop or of the whole process.
  private var isOfTask: Bool { loop.kind == LoopKind.taskPool && verdict.cause != .stopped }

  /// What had the stall, what it did, and the participle of that.
  private var actor: (subject: String, did: String, done: String) {
    if verdict.cause == .stopped { return ("the whole process", "stood still", "stood still") }
    if isOfTask {
      return (task?.name.map { "task \"\($0.limited(to: 100))\"" } ?? "a task", "held its thread", "held its thread")
    }
    let noun = LoopKind.noun(of: loop.kind)
    // What a heartbeat measures is how long the loop did not answer.
    return noun == "loop"
      ? ("\(loop.name) loop", "stood still", "stood still") : ("\(loop.name) \(noun)", "did not answer", "not answered")
  }
}

extension SuppressedStalls {
  fileprivate var sentence: String {
    func milliseconds(_ nanoseconds: UInt64) -> UInt64 { (nanoseconds + 500_000) / 1_000_000 }
    let times = count == 1 ? "once more" : "\(count) more times"
    let seconds = max(1, (window + 500_000_000) / 1_000_000_000)
    let budget = isOverBudget ? ", each untold because of the budget" : ""
    return "\(times) in \(seconds) s, \(milliseconds(total)) ms in all, \(milliseconds(longest)) ms at most\(budget)"
  }
}
