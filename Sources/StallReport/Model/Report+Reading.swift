/// Reading a report from its line, so that names can be added to it.
///
/// Any program may have written the line: a member that is missing, or of another type, is as if it were not known.
extension Report {
  /// Reads a line; nil if it is no report's, or of another event or version.
  ///
  /// What only the monitor decides by is not in a line. Whose code a frame is has to be found out again.
  package init?(_ text: JSONText) {
    let root = text.root
    guard let event = text.string(root["event"]?["name"]).flatMap(Event.init), let stack = root["stack"]?.elements,
      text.string(root["event"]?["schema"])?.hasPrefix("1.") == true
    else { return nil }
    let (stall, loop) = (root["stall"], root["loop"])
    let executable = root["process"]?["executable"]
    self.init(
      time: text.string(root["@timestamp"]).flatMap { Timestamp(rfc3339: $0, form: .report) }
        ?? Timestamp(nanosecondsSince1970: 0),
      event: event, stallID: text.string(stall?["id"]) ?? "", sequence: text.number(stall?["sequence"]) ?? 0,
      thresholdNanoseconds: text.nanoseconds(stall?["threshold_ms"]) ?? 0,
      durationNanoseconds: text.nanoseconds(stall?["duration_ms"]) ?? 0,
      verdict: Verdict(
        cause: text.string(stall?["cause"]).flatMap(Cause.init) ?? .unknown,
        evidence: Verdict.Evidence(text, stall?["evidence"])),
      fingerprint: text.string(stall?["fingerprint"]), samples: text.number(stall?["samples"]) ?? 0,
      loop: LoopState(
        name: text.string(loop?["name"]) ?? "", kind: text.string(loop?["kind"]).flatMap(LoopKind.init) ?? .loop,
        mode: text.string(loop?["mode"]), phase: text.string(loop?["phase"]).flatMap(LoopPhase.init) ?? .idle,
        callout: text.string(loop?["callout"])),
      threadID: text.number(root["thread"]?["id"]), threadName: text.string(root["thread"]?["name"]),
      origin: Origin(
        processID: text.number(root["process"]?["pid"]) ?? 0, executablePath: text.string(executable?["path"]) ?? "",
        executableBuildID: text.string(executable?["build_id"]?["gnu"]),
        serviceName: text.string(root["service"]?["name"]) ?? "", hostName: text.string(root["host"]?["name"]) ?? ""),
      stack: stack.map { StackFrame(text, $0) },
      captureFailure: text.string(stall?["capture"]?["failure"]).flatMap(CaptureFailure.init),
      threads: (root["threads"]?.elements ?? []).map { OtherThread(text, $0) },
      tally: stall?["suppressed"].map { SuppressedStalls(text, $0) },
      threadsOmitted: text.number(root["threads_omitted"]) ?? 0)
    culprit = text.string(stall?["culprit"]).map { name in
      self.stack.first { $0.name == name } ?? StackFrame(symbol: name, shortSymbol: ShortSymbol.shorten(name))
    }
    isAtLeast = text.isTrue(stall?["at_least"])
    isAborting = text.string(root["event"]?["action"]) == "abort"
    if let task = root["task"] {
      self.task = TaskState(name: text.string(task["name"]))
    }
  }
}

extension Verdict.Evidence {
  fileprivate init(_ text: JSONText, _ value: JSONText.Value?) {
    self.init(state: text.string(value?["state"]), wait: text.string(value?["wait"]))
    if let observed = text.nanoseconds(value?["observed_ms"]), let cpu = text.nanoseconds(value?["cpu_ms"]) {
      let runDelay = text.nanoseconds(value?["run_delay_ms"])
      usage = ResourceUsage(
        observed: observed, cpu: cpu, runDelay: runDelay ?? 0, countsRunDelay: runDelay != nil,
        throttled: text.nanoseconds(value?["throttled_ms"]) ?? 0, majorFaults: 0, minorFaults: 0, blockDelay: 0,
        pressure: nil)
    }
    if let thread: Int32 = text.number(value?["lock_holder"]),
      let kind = text.string(value?["lock_kind"]).flatMap(LockHolder.Kind.init)
    {
      lockHolder = LockHolder(thread: thread, kind: kind, label: text.string(value?["lock_label"]))
    }
    lock = text.string(value?["lock"])
    waitedFor = text.string(value?["waits_for"]).flatMap(WaitedFor.init) ?? .thread
    deadlock = (value?["deadlock"]?.elements ?? []).compactMap(text.number)
    if let count: UInt64 = text.number(value?["callouts"]) {
      callouts = CalloutTimes(
        count: count, age: 0, longest: text.nanoseconds(value?["longest_callout_ms"]) ?? 0)
    }
    samplesDisagree = text.isTrue(value?["samples_disagree"])
    starves = text.isTrue(value?["starves"])
    watchEnded = text.isTrue(value?["watch_ended"])
  }
}

extension SuppressedStalls {
  fileprivate init(_ text: JSONText, _ value: JSONText.Value) {
    self.init(
      count: text.number(value["count"]) ?? 0, total: text.nanoseconds(value["total_ms"]) ?? 0,
      longest: text.nanoseconds(value["longest_ms"]) ?? 0, window: text.nanoseconds(value["window_ms"]) ?? 0,
      isOverBudget: text.isTrue(value["over_budget"]))
  }
}

extension Report.OtherThread {
  fileprivate init(_ text: JSONText, _ value: JSONText.Value) {
    self.init(
      id: text.number(value["id"]) ?? 0, role: text.string(value["role"]).flatMap(Role.init) ?? .other,
      state: text.string(value["state"]), stack: (value["stack"]?.elements ?? []).map { StackFrame(text, $0) })
  }
}

extension StackFrame {
  fileprivate init(_ text: JSONText, _ value: JSONText.Value) {
    let symbol = text.string(value["symbol"])
    self.init(
      symbol: symbol, shortSymbol: symbol.map(ShortSymbol.shorten), file: text.string(value["file"]),
      line: text.number(value["line"]), isInlined: text.isTrue(value["inlined"]), module: text.string(value["module"]),
      buildID: text.string(value["build_id"]),
      offset: text.string(value["offset"]).flatMap { Hexadecimal.number($0) })
    isAsync = text.isTrue(value["async"])
  }
}

extension JSONText {
  /// A whole number that fits into the type; nil for every other value.
  fileprivate func number<Number: FixedWidthInteger>(_ value: Value?) -> Number? {
    guard case .literal(let range) = value else { return nil }
    return Number(String(decoding: bytes[range], as: UTF8.self))
  }

  /// Milliseconds as nanoseconds, rounded to microseconds as lines have them; nil for every other value, and far from any duration.
  package func nanoseconds(_ value: Value?) -> UInt64? {
    guard let milliseconds = number(value), (0...1e12).contains(milliseconds) else { return nil }
    return UInt64((milliseconds * 1000).rounded()) * 1000
  }
}
