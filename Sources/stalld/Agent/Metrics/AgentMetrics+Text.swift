extension AgentMetrics {
  /// Who reads the text: node_exporter has metrics of its own process, and takes no others of the same names.
  enum Reader {
    case scrape, textfile
  }

  /// All metrics in Prometheus's text format.
  func text(_ sample: MetricsSample, for reader: Reader = .scrape) -> [UInt8] {
    takeTurns(sample)
    var text = ExpositionText()
    text.metric("stalld_build_info", .gauge, "Always 1; the agent's version is a label.")
    text.sample("stalld_build_info", [("version", version)], 1)
    writeStalls(to: &text)
    writeLines(to: &text, sample)
    writeOutputs(to: &text, sample.outputs)
    writeConnections(to: &text, sample)
    writeAgent(to: &text, sample)
    if reader == .scrape { writeProcess(to: &text) }
    return text.bytes
  }

  private func writeStalls(to text: inout ExpositionText) {
    let all = stalls.counts.map { (labels: Self.labels(of: $0.key), count: $0.value) }
      .sorted { $0.labels.map(\.1).lexicographicallyPrecedes($1.labels.map(\.1)) }
    text.metric(
      "stalld_stalls_total", .counter,
      "Stalls by service, cause, unit, user and severity; each once: as error when it has lasted for a second or ended the process, otherwise at its end."
    )
    for (labels, count) in all {
      if count.warnings > 0 {
        text.sample("stalld_stalls_total", labels + [("severity", StallCounts.Severity.warn.rawValue)], count.warnings)
      }
      if count.errors > 0 {
        text.sample("stalld_stalls_total", labels + [("severity", StallCounts.Severity.error.rawValue)], count.errors)
      }
    }
    text.metric(
      "stalld_stalled_seconds_total", .counter,
      "Time for which loops stood still, by service, cause, unit and user; added when a stall ends.")
    for (labels, count) in all where count.seconds > 0 {
      text.sample("stalld_stalled_seconds_total", labels, count.seconds)
    }
  }

  private static func labels(of series: StallCounts.Series) -> [(StaticString, String)] {
    [("service", series.source.service), ("cause", series.cause)]
      + labels(place: series.source.place, user: series.source.user)
  }

  private static func labels(place: String, user: UInt32?) -> [(StaticString, String)] {
    var labels: [(StaticString, String)] = []
    if !place.isEmpty { labels.append(("unit", place)) }
    if let user { labels.append(("user", String(user))) }
    return labels
  }

  private func writeLines(to text: inout ExpositionText, _ sample: MetricsSample) {
    text.metric("stalld_open_stalls", .gauge, "Stalls that are under way.")
    text.sample("stalld_open_stalls", sample.openStalls)
    text.metric("stalld_lines_ingested_total", .counter, "Lines of hosts that were taken for the outputs.")
    text.sample("stalld_lines_ingested_total", ingestedLines)
    text.metric(
      "stalld_lines_duplicate_total", .counter, "Lines of hosts that had come before, and were not written again.")
    text.sample("stalld_lines_duplicate_total", duplicateLines)
    text.metric("stalld_lines_refused_total", .counter, "Lines of hosts that were refused for good, by reason.")
    for reason in LineRefusal.allCases {
      text.sample("stalld_lines_refused_total", [("reason", reason.rawValue)], refusedLines[reason] ?? 0)
    }
    text.metric(
      "stalld_lines_dropped_by_hosts_total", .counter, "Lines that hosts say they had to drop, by unit and user.")
    writeClaims(to: &text, "stalld_lines_dropped_by_hosts_total", \.dropped)
    text.metric(
      "stalld_lines_spooled_total", .counter,
      "Lines that hosts say they had kept for the agent when they connected, by unit and user."
    )
    writeClaims(to: &text, "stalld_lines_spooled_total", \.spooled)
    text.metric("stalld_queued_bytes", .gauge, "Bytes of lines that are read and not done with.")
    text.sample("stalld_queued_bytes", sample.queuedBytes)
    text.metric("stalld_queued_bytes_limit", .gauge, "At how many such bytes the agent reads no further.")
    text.sample("stalld_queued_bytes_limit", sample.queuedBytesLimit)
  }

  private func writeClaims(
    to text: inout ExpositionText, _ name: StaticString, _ value: KeyPath<HostClaims.Counts, UInt64>
  ) {
    for (client, counts) in claims.counts.sorted(by: { $0.key < $1.key }) {
      text.sample(name, Self.labels(place: client.place, user: client.user), counts[keyPath: value])
    }
  }

  private func writeOutputs(to text: inout ExpositionText, _ outputs: [MetricsSample.Output]) {
    guard !outputs.isEmpty else { return }
    func write(_ name: StaticString, _ help: StaticString, _ value: (MetricsSample.Output) -> UInt64) {
      text.metric(name, .counter, help)
      for output in outputs { text.sample(name, [("output", output.name)], value(output)) }
    }
    write("stalld_output_lines_total", "Lines written, by output.", \.lines)
    write("stalld_output_bytes_total", "Bytes written, by output.", \.bytes)
    write("stalld_output_write_errors_total", "Writes that failed, by output.", \.writeErrors)
    write("stalld_output_dropped_lines_total", "Lines that an output could not take in time and lost.", \.droppedLines)
    write("stalld_output_rotations_total", "Files that were begun anew, by output.", \.rotations)
    text.metric("stalld_output_queued_lines", .gauge, "Lines that wait to be written, by output.")
    for output in outputs { text.sample("stalld_output_queued_lines", [("output", output.name)], output.queuedLines) }
    text.metric(
      "stalld_output_stuck_seconds", .gauge,
      "For how long an output has written nothing while lines wait, by output; 0 below ten seconds.")
    for output in outputs { text.sample("stalld_output_stuck_seconds", [("output", output.name)], output.stuckSeconds) }
  }

  private func writeConnections(to text: inout ExpositionText, _ sample: MetricsSample) {
    text.metric("stalld_connections", .gauge, "Hosts that are connected.")
    text.sample("stalld_connections", sample.connections)
    text.metric("stalld_connections_accepted_total", .counter, "Connections of hosts that were accepted.")
    text.sample("stalld_connections_accepted_total", acceptedConnections)
    text.metric(
      "stalld_connections_refused_total", .counter, "Connections that were refused or ended by the agent, by reason.")
    for reason in ConnectionRefusal.allCases {
      text.sample("stalld_connections_refused_total", [("reason", reason.rawValue)], refusedConnections[reason] ?? 0)
    }
  }

  private func writeAgent(to text: inout ExpositionText, _ sample: MetricsSample) {
    text.metric("stalld_reload_failures_total", .counter, "Configurations that could not be used at a reload.")
    text.sample("stalld_reload_failures_total", failedReloads)
    if let symbols = sample.symbols {
      text.metric("stalld_frames_named_total", .counter, "Frames that were named.")
      text.sample("stalld_frames_named_total", symbols.hits)
      text.metric("stalld_frames_unnamed_total", .counter, "Frames of builds that no file was found for.")
      text.sample("stalld_frames_unnamed_total", symbols.misses)
      text.metric("stalld_symbol_cache_bytes", .gauge, "What the cache of names takes.")
      text.sample("stalld_symbol_cache_bytes", symbols.bytes)
      text.metric(
        "stalld_lines_unnamed_total", .counter, "Lines that lack names and went on without having been looked at.")
      text.sample("stalld_lines_unnamed_total", symbols.unnamedLines)
      text.metric(
        "stalld_name_worker_restarts_total", .counter,
        "How often the process that names functions had to be started again.")
      text.sample("stalld_name_worker_restarts_total", symbols.restarts)
    }
    guard sample.loop != nil else { return }
    text.metric("stalld_loop_turn_seconds", .histogram, "How long turns of the agent's own main loop took.")
    for (bound, count) in zip(TurnBuckets.bounds, turns.counts) {
      text.sample("stalld_loop_turn_seconds_bucket", [("le", ExpositionText.text(bound))], count)
    }
    text.sample("stalld_loop_turn_seconds_bucket", [("le", "+Inf")], turns.total)
    text.sample("stalld_loop_turn_seconds_sum", turns.seconds)
    text.sample("stalld_loop_turn_seconds_count", turns.total)
  }

  private func writeProcess(to text: inout ExpositionText) {
    text.metric("process_start_time_seconds", .gauge, "When the process started, in seconds since 1970.")
    text.sample("process_start_time_seconds", ProcessFigures.startTime)
    text.metric("process_resident_memory_bytes", .gauge, "Memory of the process that is resident.")
    text.sample("process_resident_memory_bytes", ProcessFigures.residentBytes)
    text.metric("process_cpu_seconds_total", .counter, "Time on processors.")
    text.sample("process_cpu_seconds_total", ProcessFigures.processorTime)
  }
}
