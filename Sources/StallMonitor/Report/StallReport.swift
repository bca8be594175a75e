/// One report: all that one JSON line says.
///
/// `Config/schema/stall-report.schema.json` is the contract; the two change together.
struct StallReport: Sendable {
  /// The version of the contract, in `event.schema`.
  static let schemaVersion = "1.0"
  /// The longest line, with its newline.
  static let longestLine = StackTrim.longestLine
  /// The longest line of which the frames are to be named by whoever takes it, and is short enough afterwards.
  static let longestUnnamedLine = 60_000

  /// What happened to the stall.
  enum Event: String, Sendable {
    case started = "stall.started"
    case ongoing = "stall.ongoing"
    case ended = "stall.ended"
    /// The process ended in it.
    case fatal = "stall.fatal"
    /// Stalls like one that was told, counted.
    case suppressed = "stall.suppressed"

    var level: String { self == .ongoing || self == .fatal ? "error" : "warn" }
  }

  /// What does not change while a process runs.
  struct Origin: Sendable {
    var processID: Int32
    var executablePath: String
    var executableBuildID: String?
    var serviceName: String
    var serviceVersion: String?
    var hostName: String
  }

  /// Which loop, and what it was doing.
  struct LoopState: Sendable {
    var name: String
    var kind: String
    var mode: String?
    var phase: Pulse.Phase
    var callout: String?
  }

  var time: Timestamp
  var event: Event
  var stallID: String
  var sequence: UInt64
  var thresholdNanoseconds: UInt64
  var durationNanoseconds: UInt64
  var verdict: Verdict
  var culprit: StackFrame?
  var fingerprint: String?
  var samples: Int
  var loop: LoopState
  /// The thread that serves the loop; nil if none does, or none is known.
  var threadID: Int32?
  var threadName: String?
  var origin: Origin
  var stack: [StackFrame]
  /// How the stack was taken.
  var captureMethod: CaptureMethod?
  /// A frame may be wrong: it was found by scanning the stack, or read after the thread had gone on.
  var isApproximate = false
  /// Outer frames could not be found.
  var isTruncated = false
  /// Why there is no stack.
  var captureFailure: CaptureFailure?
  var threads: [OtherThread] = []
  /// Where most of the time went, when the stall has ended.
  var path: CallTree.Path?
  /// All samples, for whoever names what has no name here.
  var places: PlaceTree?
  /// The file with all of the stall's samples.
  var detailFile: String?
  /// What a summary counts.
  var tally: RepeatLedger.Tally?
  /// Threads that were to be among them and were not looked at.
  var threadsOmitted = 0
  /// The monitor aborts the process because of it.
  var isAborting = false
  /// Whether this process names the frames.
  var isNamed = true
  /// What makes two stalls the same, where that is known; otherwise the fingerprint does.
  var repeatKey: String?
  /// Lines that were lost since the last one, because nobody took them.
  var droppedLines: UInt64 = 0

  /// One sentence for people.
  var message: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    // What a heartbeat measures is how long the loop did not answer.
    let isBeaten = loop.kind == TurnStamper.Kind.mainQueue.reportName || loop.kind == CooperativePoolHeartbeat.kind
    let noun = isBeaten ? (loop.kind == CooperativePoolHeartbeat.kind ? " pool" : " queue") : " loop"
    let subject = verdict.cause == .stopped ? "the whole process" : loop.name + noun
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

  /// The line with its newline, at most `limit` bytes: frames go from the middle of the stack first, and
  /// `frames_omitted` says how many.
  func line(limit: Int = longestLine) -> [UInt8] {
    guard let places else { return line(limit: limit, tree: nil) }
    if limit > Self.longestLine {
      let tree = places.json(room: limit / 3)
      return line(limit: limit - (tree.map { $0.bytes.count + PlaceTree.memberOverhead } ?? 0), tree: tree)
    }
    // It gives way to all else.
    let plain = line(limit: limit, tree: nil)
    guard let tree = places.json(room: limit - plain.count) else { return plain }
    return line(limit: limit, tree: tree)
  }

  private func line(limit: Int, tree: JSONLine?) -> [UInt8] {
    var frames = stack.map(\.json)
    // The other threads' stacks give way before the loop's own does.
    var others = threads.map { thread in (thread, thread.stack.map(\.json)) }
    var omitted = 0
    let room = limit - line(frames: [], others: [], omitted: 1, threadsOmitted: 1).count - 20
    let ownRoom = max(room / 2, room - others.reduce(0) { $0 + $1.0.headSize + Self.size($1.1) })
    omitted += Self.trim(&frames, to: ownRoom)
    var left = room - Self.size(frames)
    let told = Self.fitting(others, in: left)
    let threadsOmitted = threadsOmitted + others.count - told
    others.removeSubrange(told...)
    left -= others.reduce(0) { $0 + $1.0.headSize }
    // A thread that is waited for has the share of four others.
    var shares = others.reduce(0) { $0 + $1.0.role.share }
    for index in others.indices {
      let share = others[index].0.role.share
      omitted += Self.trim(&others[index].1, to: left * share / shares)
      left -= Self.size(others[index].1)
      shares -= share
    }
    return line(frames: frames, others: others, omitted: omitted, threadsOmitted: threadsOmitted, tree: tree)
  }

  /// How many of the threads fit with their innermost frames; the rest is counted.
  private static func fitting(_ threads: [(OtherThread, [JSONLine])], in room: Int) -> Int {
    var left = room
    for (index, (thread, frames)) in threads.enumerated() {
      // What is waited for is told whatever it costs the others; of those, a thread with three frames is worth its room.
      left -= thread.headSize + (thread.role == .lockHolder ? 0 : size(Array(frames.prefix(3))))
      if left < 0 { return index }
    }
    return threads.count
  }

  private func line(
    frames: [JSONLine], others: [(OtherThread, [JSONLine])], omitted: Int, threadsOmitted: Int, tree: JSONLine? = nil
  ) -> [UInt8] {
    var line = JSONLine()
    line.member("@timestamp", time.text)
    line.member("log.level", event.level)
    line.member("message", message)
    line.object("event") {
      $0.member("name", event.rawValue)
      $0.member("schema", Self.schemaVersion)
      if isAborting { $0.member("action", "abort") }
      if droppedLines > 0 { $0.member("dropped", droppedLines) }
    }
    line.object("stall") {
      $0.member("id", stallID)
      $0.member("sequence", sequence)
      $0.member("threshold_ms", milliseconds: thresholdNanoseconds)
      $0.member("duration_ms", milliseconds: durationNanoseconds)
      $0.member("cause", verdict.cause.rawValue)
      $0.object("evidence", required: true, verdict.evidence.write)
      $0.member("culprit", culprit?.name.limited(to: 500))
      $0.member("fingerprint", fingerprint)
      $0.member("samples", samples)
      if let tally {
        $0.object("suppressed") {
          $0.member("count", tally.count)
          $0.member("total_ms", milliseconds: tally.total)
          $0.member("longest_ms", milliseconds: tally.longest)
          $0.member("window_ms", milliseconds: tally.window)
          $0.member("over_budget", ifTrue: tally.isOverBudget)
        }
      }
      if let path, isNamed { $0.object("path", path.write) }
      $0.member("detail", detailFile?.limited(to: 500))
      $0.capture(
        method: captureMethod, isApproximate: isApproximate, isTruncated: isTruncated, failure: captureFailure)
    }
    line.object("loop") {
      $0.member("name", loop.name)
      $0.member("kind", loop.kind)
      $0.member("mode", loop.mode?.limited(to: 200))
      $0.member("phase", loop.phase.reportName)
      $0.member("callout", loop.callout?.limited(to: 300))
    }
    if let threadID {
      line.object("thread") {
        $0.member("id", threadID)
        $0.member("name", threadName)
      }
    }
    line.object("process") {
      $0.member("pid", origin.processID)
      $0.object("executable") {
        $0.member("path", origin.executablePath.limited(to: 500))
        $0.object("build_id") { $0.member("gnu", origin.executableBuildID) }
      }
    }
    line.object("service") {
      $0.member("name", origin.serviceName.limited(to: 200))
      $0.member("version", origin.serviceVersion?.limited(to: 100))
    }
    line.object("host") { $0.member("name", origin.hostName) }
    line.array("stack", frames)
    if !others.isEmpty { line.array("threads", others.map { $0.json(frames: $1) }) }
    if threadsOmitted > 0 { line.member("threads_omitted", threadsOmitted) }
    if omitted > 0 { line.member("frames_omitted", omitted) }
    if let tree { line.object("call_tree") { $0.append(members: tree) } }
    return line.terminated()
  }

  /// Makes the report of a stall that was not told into the summary of all such.
  mutating func suppress(_ tally: RepeatLedger.Tally) {
    event = .suppressed
    time = .now()
    durationNanoseconds = tally.total
    self.tally = tally
    // Whoever names the culprit needs the frame.
    if isNamed { stack = [] }
    threads = []
    threadsOmitted = 0
    captureFailure = nil
    captureMethod = nil
    isApproximate = false
    isTruncated = false
    path = nil
    // Without the frame, nothing is named.
    if isNamed { places = nil }
    var evidence = Verdict.Evidence()
    evidence.wait = verdict.evidence.wait
    verdict.evidence = evidence
    guard tally.isOverBudget else { return }
    stack = []
    culprit = nil
    fingerprint = nil
    places = nil
    verdict = Verdict(cause: .unknown, evidence: Verdict.Evidence())
  }

  private static func size(_ frames: [JSONLine]) -> Int { StackTrim.size(of: frames.map(\.bytes.count)) }

  private static func trim(_ frames: inout [JSONLine], to room: Int) -> Int {
    let omitted = StackTrim.middle(of: frames.map(\.bytes.count), room: room)
    frames.removeSubrange(omitted)
    return omitted.count
  }
}

extension Pulse.Phase {
  /// The phase as a report names it: the transition that began the turn.
  var reportName: String {
    switch self {
    case .idle: "idle"
    case .beforeSources: "before-sources"
    case .afterWaiting: "after-waiting"
    case .heartbeat: "heartbeat"
    }
  }
}

extension CallTree.Path {
  private static let functionLimit = 12

  /// The host's own functions on the path, innermost first and in their short form: at most ``functionLimit``, of which the last is the
  /// outermost.
  private var hostFunctions: [String] {
    let names = frames.filter(\.isHostCode).map { ($0.shortSymbol ?? $0.name).limited(to: 120) }
    return names.count <= Self.functionLimit ? names : Array(names.prefix(Self.functionLimit - 1)) + names.suffix(1)
  }

  /// The members of `stall.path`; none without a function of the host's.
  package func write(to object: inout JSONLine) {
    let functions = hostFunctions
    guard !functions.isEmpty else { return }
    object.member("share", share: share)
    object.array("functions", functions)
  }
}

extension RepeatLedger.Tally {
  fileprivate var sentence: String {
    func milliseconds(_ nanoseconds: UInt64) -> UInt64 { (nanoseconds + 500_000) / 1_000_000 }
    let times = count == 1 ? "once more" : "\(count) more times"
    let seconds = max(1, (window + 500_000_000) / 1_000_000_000)
    let budget = isOverBudget ? ", each untold because of the budget" : ""
    return "\(times) in \(seconds) s, \(milliseconds(total)) ms in all, \(milliseconds(longest)) ms at most\(budget)"
  }
}

extension JSONLine {
  /// Adds how a stack was taken, and what is to be known of one that is not whole and exact.
  mutating func capture(method: CaptureMethod?, isApproximate: Bool, isTruncated: Bool, failure: CaptureFailure?) {
    object("capture") {
      $0.member("method", method?.rawValue)
      $0.member("approximate", ifTrue: isApproximate)
      $0.member("truncated", ifTrue: isTruncated)
      $0.member("failure", failure?.rawValue)
    }
  }
}
