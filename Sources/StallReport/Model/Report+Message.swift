extension Report {
  /// One sentence for people, made of what the line says: who adds names to a line makes it again.
  package var message: String {
    if let tally, tally.isOverBudget { return tally.overBudgetMessage }
    let milliseconds = durationNanoseconds.inMilliseconds
    let (subject, verb) = actor
    let what =
      switch event {
      case .started, .ongoing: "\(subject) has \(verb.participle) for \(milliseconds) ms"
      case .ended where endedLater:
        "\(subject) \(verb.past) for at least \(milliseconds) ms"
      case .ended: "\(subject) \(verb.past) for \(milliseconds) ms"
      case .fatal: "\(subject) had \(verb.participle) for at least \(milliseconds) ms"
      // The name is the last task's only.
      case .suppressed where isOfTask: "tasks blocked their threads \(tally?.times ?? "again")"
      case .suppressed: "\(subject) \(verb.past) \(tally?.times ?? "again")"
      }
    let place = (culprit.map { " in " + $0.place } ?? "") + calloutClause
    let end = event == .fatal ? " when the process ended" : ""
    let durations = tally.map { $0.durations + "; " } ?? ""
    let action = isAborting ? "; the monitor aborts the process, as configured" : ""
    let waiting = isOfTask && verdict.evidence.starves ? "; other tasks were waiting for a thread" : ""
    let tail = holderClause.limited(to: 200) + action + waiting
    return "\(what)\(place)\(end): \(durations)\(verdict.sentence)".limited(to: 600 - tail.utf8.count) + tail
  }

  /// ` for the callout timer "flush"`, where no function of the service's own is known to say what was called.
  private var calloutClause: String {
    guard culprit?.isHostCode != true, captureFailure != .shortCallouts, let callout = loop.callout else { return "" }
    return " for the callout " + callout.limited(to: 120)
  }

  /// Whether the stall that has ended was longer than is known: `stall.at_least`.
  ///
  /// A heartbeat, or the scan that finds a blocked task, starts some time after the stall does. The watch may end before the stall.
  var endedLater: Bool {
    event == .ended && (isAtLeast || loop.phase == .heartbeat || verdict.evidence.watchEnded)
  }

  /// What the thread does that is waited for: `; thread 12 is in flush_audit (audit.c:80), in ftruncate(fd 5 → …)`.
  private var holderClause: String {
    guard event != .suppressed, verdict.cause == .lock, verdict.evidence.deadlock.isEmpty,
      let holder = verdict.evidence.lockHolder,
      let thread = threads.first(where: { $0.role == .lockHolder && $0.id == holder.thread })
    else { return "" }
    // Without a name, a place says nothing to people.
    let function = Culprit.frame(of: thread.stack).flatMap { $0.symbol == nil ? nil : $0.place.limited(to: 120) }
    let isRunning = thread.state == "running"
    let places = [function, isRunning ? nil : thread.state].compactMap { $0.map { "in \($0)" } }
    guard isRunning || !places.isEmpty else { return "" }
    return "; thread \(holder.thread) is " + (isRunning ? "running " : "") + places.joined(separator: ", ")
  }

  /// Whether the report is about a task that blocked its thread, not about a loop or the whole process.
  private var isOfTask: Bool { loop.kind.isOfTasks && !isOfProcess }

  /// Whether the whole process was stopped: a thread that was stopped alone has been sampled.
  private var isOfProcess: Bool { verdict.cause == .stopped && samples == 0 }

  /// The subject of the sentence, and its verb.
  private var actor: (subject: String, verb: StallVerb) {
    if isOfProcess { return ("the whole process", .stopped) }
    // Nobody knows which of its jobs, or whether it was one.
    if isOfTask, captureFailure == .severalJobs { return ("an actor", .blockedItsThread) }
    if isOfTask { return (task?.name.map { "task \"\($0.limited(to: 100))\"" } ?? "a task", .blockedItsThread) }
    let noun = loop.kind.noun
    // A heartbeat measures how long the queue or the pool did not respond.
    return ("\(loop.name) \(noun)", noun == "loop" ? .blocked : .didNotRespond)
  }
}

extension SuppressedStalls {
  /// `3 more times`.
  fileprivate var times: String { count == 1 ? "once more" : "\(count) more times" }

  /// `in 30 s, 1800 ms in total, the longest 700 ms`.
  fileprivate var durations: String {
    let seconds = max(1, (window.inMilliseconds + 500) / 1000)
    return "in \(seconds) s, \(total.inMilliseconds) ms in total, the longest \(longest.inMilliseconds) ms"
  }

  /// Stalls of different loops and functions: none of them is named.
  fileprivate var overBudgetMessage: String {
    let stalls = count == 1 ? "1 stall of this process was" : "\(count) stalls of this process were"
    return "\(stalls) counted and not reported, because of the limit of reports per minute: \(durations)"
  }
}

extension UInt64 {
  /// Nanoseconds as milliseconds, rounded as those that a line has.
  var inMilliseconds: UInt64 { ((self + 500) / 1000 + 500) / 1000 }
}
