/// One report: all that one JSON line says.
///
/// `Config/schema/stall-report.schema.json` is the contract; the two change together.
package struct Report: Sendable {
  /// The version of the contract, in `event.schema`.
  package static let schemaVersion = "1.0"
  /// The longest line, with its newline.
  package static let longestLine = StackTrim.longestLine
  /// The longest line whose frames the receiver names; the receiver shortens the named line to ``longestLine``.
  package static let longestUnnamedLine = 60_000

  /// What happened to the stall.
  package enum Event: String, Sendable, CaseIterable {
    case started = "stall.started"
    case ongoing = "stall.ongoing"
    case ended = "stall.ended"
    /// The process ended in it.
    case fatal = "stall.fatal"
    /// The summary of stalls like a reported one.
    case suppressed = "stall.suppressed"

  }

  /// The `log.level`: `info` for a task that delayed no other task, unless the process ended in the stall.
  package var level: String {
    let delaysNobody = loop.kind.isOfTasks && !verdict.evidence.starves
    return switch event {
    case .ongoing: delaysNobody ? "info" : "error"
    case .fatal: "error"
    case .started, .ended, .suppressed: delaysNobody ? "info" : "warn"
    }
  }

  /// What does not change while a process runs.
  package struct Origin: Sendable {
    package var processID: Int32
    package var executablePath: String
    package var executableBuildID: String?
    package var serviceName: String
    package var serviceVersion: String?
    package var hostName: String

    package init(
      processID: Int32, executablePath: String, executableBuildID: String? = nil, serviceName: String,
      serviceVersion: String? = nil, hostName: String
    ) {
      self.processID = processID
      self.executablePath = executablePath
      self.executableBuildID = executableBuildID
      self.serviceName = serviceName
      self.serviceVersion = serviceVersion
      self.hostName = hostName
    }
  }

  /// Which loop, and what it was doing.
  package struct LoopState: Sendable {
    package var name: String
    package var kind: LoopKind
    package var mode: String?
    package var phase: LoopPhase
    package var callout: String?

    package init(name: String, kind: LoopKind, mode: String? = nil, phase: LoopPhase, callout: String? = nil) {
      self.name = name
      self.kind = kind
      self.mode = mode
      self.phase = phase
      self.callout = callout
    }
  }

  package var time: Timestamp
  package var event: Event
  package var stallID: String
  package var sequence: UInt64
  package var thresholdNanoseconds: UInt64
  package var durationNanoseconds: UInt64
  package var verdict: Verdict
  package var culprit: StackFrame?
  package var fingerprint: String?
  package var samples: Int
  package var loop: LoopState
  /// The task that held the thread; nil unless the loop is a thread of the task pool.
  package var task: TaskState?
  /// The thread that serves the loop; nil if none does, or none is known.
  package var threadID: Int32?
  package var threadName: String?
  package var origin: Origin
  package var stack: [StackFrame]
  /// How the stack was taken.
  package var captureMethod: CaptureMethod?
  /// A frame may be wrong: it was found by scanning the stack, or read after the thread had
  /// continued.
  package var isApproximate = false
  /// Outer frames could not be found.
  package var isTruncated = false
  /// The stack ends where a child task begins.
  package var isChildTask = false
  /// Why there is no stack.
  package var captureFailure: CaptureFailure?
  package var threads: [OtherThread] = []
  /// Where most of the time went, when the stall has ended.
  package var path: CallTree.Path?
  /// All samples, for the tool that adds missing names.
  package var places: UnnamedCallTree?
  /// The file with all of the stall's samples.
  package var detailFile: String?
  /// What a summary counts.
  package var tally: SuppressedStalls?
  /// The number of threads that are missing because the time limit was reached.
  package var threadsOmitted = 0
  /// Whether the duration is known only from checks during the stall.
  package var isAtLeast = false
  /// The monitor aborts the process because of it.
  package var isAborting = false
  /// Whether this process names the frames.
  package var isNamed = true
  /// What makes two stalls the same, where that is known; otherwise the fingerprint does.
  package var repeatKey: String?
  /// The number of lines that were dropped since the last line.
  package var droppedLines: UInt64 = 0

  package init(
    time: Timestamp, event: Event, stallID: String, sequence: UInt64, thresholdNanoseconds: UInt64,
    durationNanoseconds: UInt64, verdict: Verdict, culprit: StackFrame? = nil, fingerprint: String? = nil, samples: Int,
    loop: LoopState, threadID: Int32? = nil, threadName: String? = nil, origin: Origin, stack: [StackFrame],
    captureMethod: CaptureMethod? = nil, isApproximate: Bool = false, isTruncated: Bool = false,
    isChildTask: Bool = false, captureFailure: CaptureFailure? = nil, threads: [OtherThread] = [],
    path: CallTree.Path? = nil,
    places: UnnamedCallTree? = nil, detailFile: String? = nil, tally: SuppressedStalls? = nil, threadsOmitted: Int = 0
  ) {
    self.time = time
    self.event = event
    self.stallID = stallID
    self.sequence = sequence
    self.thresholdNanoseconds = thresholdNanoseconds
    self.durationNanoseconds = durationNanoseconds
    self.verdict = verdict
    self.culprit = culprit
    self.fingerprint = fingerprint
    self.samples = samples
    self.loop = loop
    self.threadID = threadID
    self.threadName = threadName
    self.origin = origin
    self.stack = stack
    self.captureMethod = captureMethod
    self.isApproximate = isApproximate
    self.isTruncated = isTruncated
    self.isChildTask = isChildTask
    self.captureFailure = captureFailure
    self.threads = threads
    self.path = path
    self.places = places
    self.detailFile = detailFile
    self.tally = tally
    self.threadsOmitted = threadsOmitted
  }

  /// The summary of stalls that were not reported in full; this is the last of them.
  ///
  /// It has only what is true of all of them: a new property of a report is not in it unless it is added here. Those over the
  /// budget are of different loops and functions.
  package func summary(of tally: SuppressedStalls, at time: Timestamp) -> Report {
    let areAlike = !tally.isOverBudget
    // Each task runs on a thread of the pool, which need not be the same.
    let hasThread = areAlike && !loop.kind.isOfTasks
    var evidence = Verdict.Evidence()
    if areAlike {
      evidence.wait = verdict.evidence.wait
      evidence.waitedFor = verdict.evidence.waitedFor
      evidence.lock = verdict.evidence.lockHolder?.text
      evidence.starves = verdict.evidence.starves
    }
    var summary = Report(
      time: time, event: .suppressed, stallID: stallID, sequence: sequence, thresholdNanoseconds: thresholdNanoseconds,
      durationNanoseconds: tally.total,
      verdict: Verdict(cause: areAlike ? verdict.cause : .unknown, evidence: evidence),
      culprit: areAlike ? culprit : nil, fingerprint: areAlike ? fingerprint : nil, samples: samples,
      loop: areAlike ? loop : LoopState(name: loop.name, kind: loop.kind, phase: loop.phase),
      threadID: hasThread ? threadID : nil, threadName: hasThread ? threadName : nil, origin: origin,
      // The tool that names the responsible function needs the frame, and without the frame nothing is named.
      stack: areAlike && !isNamed ? stack : [], places: areAlike && !isNamed ? places : nil, tally: tally)
    summary.isNamed = isNamed
    return summary
  }
}
