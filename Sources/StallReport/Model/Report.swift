/// One report: all that one JSON line says.
///
/// `Config/schema/stall-report.schema.json` is the contract; the two change together.
package struct Report: Sendable {
  /// The version of the contract, in `event.schema`.
  package static let schemaVersion = "1.0"
  /// The longest line, with its newline.
  package static let longestLine = StackTrim.longestLine
  /// The longest line of which the frames are to be named by whoever takes it, and is short enough afterwards.
  package static let longestUnnamedLine = 60_000

  /// What happened to the stall.
  package enum Event: String, Sendable {
    case started = "stall.started"
    case ongoing = "stall.ongoing"
    case ended = "stall.ended"
    /// The process ended in it.
    case fatal = "stall.fatal"
    /// Stalls like one that was told, counted.
    case suppressed = "stall.suppressed"

    package var level: String { self == .ongoing || self == .fatal ? "error" : "warn" }
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
    package var kind: String
    package var mode: String?
    package var phase: LoopPhase
    package var callout: String?

    package init(name: String, kind: String, mode: String? = nil, phase: LoopPhase, callout: String? = nil) {
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
  /// The thread that serves the loop; nil if none does, or none is known.
  package var threadID: Int32?
  package var threadName: String?
  package var origin: Origin
  package var stack: [StackFrame]
  /// How the stack was taken.
  package var captureMethod: CaptureMethod?
  /// A frame may be wrong: it was found by scanning the stack, or read after the thread had gone on.
  package var isApproximate = false
  /// Outer frames could not be found.
  package var isTruncated = false
  /// Why there is no stack.
  package var captureFailure: CaptureFailure?
  package var threads: [OtherThread] = []
  /// Where most of the time went, when the stall has ended.
  package var path: CallTree.Path?
  /// All samples, for whoever names what has no name here.
  package var places: PlaceTree?
  /// The file with all of the stall's samples.
  package var detailFile: String?
  /// What a summary counts.
  package var tally: SuppressedStalls?
  /// Threads that were to be among them and were not looked at.
  package var threadsOmitted = 0
  /// The monitor aborts the process because of it.
  package var isAborting = false
  /// Whether this process names the frames.
  package var isNamed = true
  /// What makes two stalls the same, where that is known; otherwise the fingerprint does.
  package var repeatKey: String?
  /// Lines that were lost since the last one, because nobody took them.
  package var droppedLines: UInt64 = 0

  package init(
    time: Timestamp, event: Event, stallID: String, sequence: UInt64, thresholdNanoseconds: UInt64,
    durationNanoseconds: UInt64, verdict: Verdict, culprit: StackFrame? = nil, fingerprint: String? = nil, samples: Int,
    loop: LoopState, threadID: Int32? = nil, threadName: String? = nil, origin: Origin, stack: [StackFrame],
    captureMethod: CaptureMethod? = nil, isApproximate: Bool = false, isTruncated: Bool = false,
    captureFailure: CaptureFailure? = nil, threads: [OtherThread] = [], path: CallTree.Path? = nil,
    places: PlaceTree? = nil, detailFile: String? = nil, tally: SuppressedStalls? = nil, threadsOmitted: Int = 0
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
    self.captureFailure = captureFailure
    self.threads = threads
    self.path = path
    self.places = places
    self.detailFile = detailFile
    self.tally = tally
    self.threadsOmitted = threadsOmitted
  }

  /// One sentence for people.
  package var message: String {
    let milliseconds = (durationNanoseconds + 500_000) / 1_000_000
    // What a heartbeat measures is how long the loop did not answer.
    let isBeaten = loop.kind == LoopKind.mainQueue || loop.kind == LoopKind.cooperativePool
    let noun = isBeaten ? (loop.kind == LoopKind.cooperativePool ? " pool" : " queue") : " loop"
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
  package func line(limit: Int = longestLine) -> [UInt8] {
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

  private func line(limit: Int, tree: JSONWriter?) -> [UInt8] {
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
  private static func fitting(_ threads: [(OtherThread, [JSONWriter])], in room: Int) -> Int {
    var left = room
    for (index, (thread, frames)) in threads.enumerated() {
      // What is waited for is told whatever it costs the others; of those, a thread with three frames is worth its room.
      left -= thread.headSize + (thread.role == .lockHolder ? 0 : size(Array(frames.prefix(3))))
      if left < 0 { return index }
    }
    return threads.count
  }

  private func line(
    frames: [JSONWriter], others: [(OtherThread, [JSONWriter])], omitted: Int, threadsOmitted: Int,
    tree: JSONWriter? = nil
  ) -> [UInt8] {
    var line = JSONWriter()
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
      $0.member("phase", loop.phase.rawValue)
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
  package mutating func suppress(_ tally: SuppressedStalls, at time: Timestamp) {
    event = .suppressed
    self.time = time
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

  private static func size(_ frames: [JSONWriter]) -> Int { StackTrim.size(of: frames.map(\.bytes.count)) }

  private static func trim(_ frames: inout [JSONWriter], to room: Int) -> Int {
    let omitted = StackTrim.middle(of: frames.map(\.bytes.count), room: room)
    frames.removeSubrange(omitted)
    return omitted.count
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
  package func write(to object: inout JSONWriter) {
    let functions = hostFunctions
    guard !functions.isEmpty else { return }
    object.member("share", share: share)
    object.array("functions", functions)
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

extension JSONWriter {
  /// Adds how a stack was taken, and what is to be known of one that is not whole and exact.
  package mutating func capture(
    method: CaptureMethod?, isApproximate: Bool, isTruncated: Bool, failure: CaptureFailure?
  ) {
    object("capture") {
      $0.member("method", method?.rawValue)
      $0.member("approximate", ifTrue: isApproximate)
      $0.member("truncated", ifTrue: isTruncated)
      $0.member("failure", failure?.rawValue)
    }
  }
}
