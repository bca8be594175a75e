extension Report {
  /// One sentence for people.
  package var message: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    let (subject, verb, participle) = actor
    let what =
      switch event {
      case .started, .ongoing: "\(subject) has \(participle) for \(milliseconds) ms"
      // A heartbeat, or the scan that finds a blocked task, starts some time after the stall does.
      case .ended where loop.phase == .heartbeat:
        "\(subject) \(verb) for at least \(milliseconds) ms"
      case .ended: "\(subject) \(verb) for \(milliseconds) ms"
      case .fatal: "\(subject) had \(participle) for at least \(milliseconds) ms"
      case .suppressed: "\(subject) \(verb) \(tally?.sentence ?? "again")"
      }
    let place = culprit.map { " in " + $0.place } ?? ""
    let end = event == .fatal ? " when the process ended" : ""
    let action = isAborting ? "; the monitor aborts the process, as configured" : ""
    let waiting = isOfTask && verdict.evidence.starves ? "; other tasks were waiting for a thread" : ""
    let tail = action + waiting
    return "\(what)\(place)\(end): \(verdict.sentence)".limited(to: 600 - tail.utf8.count) + tail
  }

  /// Whether the report is about a task that blocked its thread, not about a loop or the whole process.
  private var isOfTask: Bool { loop.kind == LoopKind.taskPool && verdict.cause != .stopped }

  /// The subject of the sentence, and its verb in the past tense and after `has`.
  private var actor: (subject: String, verb: String, participle: String) {
    if verdict.cause == .stopped { return ("the whole process", "was paused", "been paused") }
    if isOfTask {
      return (
        task?.name.map { "task \"\($0.limited(to: 100))\"" } ?? "a task", "blocked its thread", "blocked its thread"
      )
    }
    let noun = LoopKind.noun(of: loop.kind)
    // A heartbeat measures how long the queue or the pool did not respond.
    return noun == "loop"
      ? ("\(loop.name) loop", "blocked", "been blocked")
      : ("\(loop.name) \(noun)", "did not respond", "not responded")
  }
}

extension SuppressedStalls {
  fileprivate var sentence: String {
    func milliseconds(_ nanoseconds: UInt64) -> UInt64 { (nanoseconds + 500_000) / 1_000_000 }
    let times = count == 1 ? "once more" : "\(count) more times"
    let seconds = max(1, (window + 500_000_000) / 1_000_000_000)
    let limit = isOverBudget ? "; not reported one by one because of the report limit" : ""
    return "\(times) in \(seconds) s, \(milliseconds(total)) ms in total, \(milliseconds(longest)) ms at most\(limit)"
  }
}
