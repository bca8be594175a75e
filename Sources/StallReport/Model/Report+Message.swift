extension Report {
  /// One sentence for people.
  package var message: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    // What a heartbeat measures is how long the loop did not answer.
    if loop.kind == LoopKind.taskPool, verdict.cause != .stopped { return messageOfTask }
    let noun = LoopKind.noun(of: loop.kind)
    let isBeaten = noun != "loop"
    let subject = verdict.cause == .stopped ? "the whole process" : "\(loop.name) \(noun)"
    let (stood, stand) =
      isBeaten && verdict.cause != .stopped ? ("did not answer", "not answered") : ("stood still", "stood still")
    let what =
      switch event {
      case .started, .ongoing: "\(subject) has \(stand) for \(milliseconds) ms"
      // A heartbeat is posted at some time into the stall.
      case .ended where loop.phase == .heartbeat:
        "\(subject) \(stood) for at least \(milliseconds) ms"
      case .ended: "\(subject) \(stood) for \(milliseconds) ms"
      case .fatal: "\(subject) had \(stand) for at least \(milliseconds) ms"
      case .suppressed: "\(subject) \(stood) \(tally?.sentence ?? "again")"
      }
    let place = culprit.map { " in " + $0.place } ?? ""
    let end = event == .fatal ? " when the process ended" : ""
    let action = isAborting ? "; the monitor aborts the process, as it is configured to" : ""
    return "\(what)\(place)\(end): \(verdict.sentence)".limited(to: 600 - action.utf8.count) + action
  }

  /// The same of a task that held a thread of the task pool.
  private var messageOfTask: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    let subject = task?.name.map { "task \"\($0.limited(to: 100))\"" } ?? "a task"
    let what =
      switch event {
      case .started, .ongoing: "\(subject) has held its thread for \(milliseconds) ms"
      // Found by a scan, some time after it had blocked.
      case .ended where loop.phase == .heartbeat: "\(subject) held its thread for at least \(milliseconds) ms"
      case .ended: "\(subject) held its thread for \(milliseconds) ms"
      case .fatal: "\(subject) had held its thread for at least \(milliseconds) ms"
      case .suppressed: "\(subject) held its thread \(tally?.sentence ?? "again")"
      }
    let place = culprit.map { " in " + $0.place } ?? ""
    let end = event == .fatal ? " when the process ended" : ""
    let waiting = verdict.evidence.starves ? "; other tasks waited for a thread" : ""
    return "\(what)\(place)\(end): \(verdict.sentence)".limited(to: 600 - waiting.utf8.count) + waiting
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
