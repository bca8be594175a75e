/// The members of the line, in the order of the schema.
extension Report {
  /// Everything except the stacks, which may have to be shortened.
  func writeHead(into line: inout JSONWriter) {
    line.member("@timestamp", time.text)
    line.member("log.level", level)
    line.member("message", message)
    line.object("event") {
      $0.member("name", event.rawValue)
      $0.member("schema", Self.schemaVersion)
      if isAborting { $0.member("action", "abort") }
      if droppedLines > 0 { $0.member("dropped", droppedLines) }
    }
    line.object("stall", writeStall)
    line.object("loop") {
      loop.writeIdentity(to: &$0)
      $0.member("mode", loop.mode?.limited(to: 200))
      $0.member("phase", loop.phase.rawValue)
      $0.member("callout", loop.callout?.limited(to: 300))
    }
    if let task { line.object("task", task.write) }
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
    origin.writeService(to: &line)
  }

  private func writeStall(_ stall: inout JSONWriter) {
    stall.member("id", stallID)
    stall.member("sequence", sequence)
    stall.member("threshold_ms", milliseconds: thresholdNanoseconds)
    stall.member("duration_ms", milliseconds: durationNanoseconds)
    stall.member("at_least", ifTrue: endedLater)
    stall.member("cause", verdict.cause.rawValue)
    stall.object("evidence", required: true, verdict.evidence.write)
    stall.member("culprit", culprit?.name.limited(to: 500))
    stall.member("fingerprint", fingerprint)
    stall.member("samples", samples)
    if let tally {
      stall.object("suppressed") {
        $0.member("count", tally.count)
        $0.member("total_ms", milliseconds: tally.total)
        $0.member("longest_ms", milliseconds: tally.longest)
        $0.member("window_ms", milliseconds: tally.window)
        $0.member("over_budget", ifTrue: tally.isOverBudget)
      }
    }
    if let path, isNamed { stall.object("path", path.write) }
    stall.member("detail", detailFile?.limited(to: 500))
    stall.capture(
      method: captureMethod, isApproximate: isApproximate, isTruncated: isTruncated,
      isChildTask: isChildTask, failure: captureFailure)
  }
}

extension Report.LoopState {
  /// Writes the members of `loop` that do not change.
  package func writeIdentity(to object: inout JSONWriter) {
    object.member("name", name)
    object.member("kind", kind.rawValue)
  }
}

extension Report.Origin {
  /// Writes `service` and `host`.
  package func writeService(to line: inout JSONWriter) {
    line.object("service") {
      $0.member("name", serviceName.limited(to: 200))
      $0.member("version", serviceVersion?.limited(to: 100))
    }
    line.object("host") { $0.member("name", hostName) }
  }
}

extension CallTree.Path {
  private static let functionLimit = 12

  /// The service's own functions on the path, innermost first and in their short form: at most
  /// ``functionLimit``; the last one is the outermost.
  private var hostFunctions: [String] {
    let names = frames.filter(\.isHostCode).map { ($0.shortSymbol ?? $0.name).limited(to: 120) }
    return names.count <= Self.functionLimit ? names : Array(names.prefix(Self.functionLimit - 1)) + names.suffix(1)
  }

  /// The members of `stall.path`; none without a function of the service's own code.
  package func write(to object: inout JSONWriter) {
    let functions = hostFunctions
    guard !functions.isEmpty else { return }
    object.member("share", share: share)
    object.array("functions", functions)
  }
}

extension JSONWriter {
  /// Adds how a stack was taken, and what is to be known of one that is not whole and exact.
  package mutating func capture(
    method: CaptureMethod?, isApproximate: Bool, isTruncated: Bool, isChildTask: Bool, failure: CaptureFailure?
  ) {
    object("capture") {
      $0.member("method", method?.rawValue)
      $0.member("approximate", ifTrue: isApproximate)
      $0.member("truncated", ifTrue: isTruncated)
      $0.member("child_task", ifTrue: isChildTask)
      $0.member("failure", failure?.rawValue)
    }
  }
}
