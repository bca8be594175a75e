extension AgentMetrics {
  private typealias Number = MetricRow.Number

  /// Who reads the text: node_exporter has metrics of its own process, and takes no others of the same names.
  enum Reader {
    case scrape, textfile
  }

  /// All metrics in Prometheus's text format.
  func text(_ sample: MetricsSample, for reader: Reader = .scrape) -> [UInt8] {
    takeTurns(sample)
    var text = ExpositionText()
    for row in Self.rows where reader == .scrape || !row.isOfProcess {
      guard let samples = row.samples(self, sample) else { continue }
      text.metric(row.name, row.kind, row.help)
      for sample in samples { text.sample(row.name, sample.labels, sample.value, suffix: sample.suffix) }
    }
    return text.bytes
  }

  /// The metrics that there are, in the order of the text: a new one is a row.
  private static var rows: [MetricRow] {
    stallRows + lineRows + outputRows + detailRows + connectionRows + agentRows + processRows
  }

  private static var stallRows: [MetricRow] {
    [
      MetricRow("stalld_build_info", .gauge, "Always 1; the agent's version is a label.") { metrics, _ in
        [MetricRow.Sample(labels: [("version", metrics.version)], value: Number(1))]
      },
      MetricRow(
        "stalld_stalls_total", .counter,
        "Stalls by service, cause, unit, user and severity. Each stall counts once: as error when one of its lines has log.level error, otherwise as warn when it ends (also a task stall of level info)."
      ) { metrics, _ in
        metrics.sortedStalls.flatMap { labels, count in
          [(StallCounts.Severity.warn, count.warnings), (.error, count.errors)].filter { $0.1 > 0 }.map {
            MetricRow.Sample(labels: labels + [("severity", $0.0.rawValue)], value: Number($0.1))
          }
        }
      },
      MetricRow(
        "stalld_stalled_seconds_total", .counter,
        "Time that loops and tasks were blocked, by service, cause, unit and user; added when a stall ends."
      ) { metrics, _ in
        metrics.sortedStalls.filter { $0.count.seconds > 0 }.map {
          MetricRow.Sample(labels: $0.labels, value: Number($0.count.seconds))
        }
      },
    ]
  }

  private var sortedStalls: [(labels: [(StaticString, String)], count: StallCounts.Count)] {
    stalls.counts.map { series, count in
      (
        labels: [("service", series.source.service), ("cause", series.cause)]
          + MetricRow.labels(place: series.source.place, user: series.source.user), count: count
      )
    }
    .sorted { $0.labels.map(\.1).lexicographicallyPrecedes($1.labels.map(\.1)) }
  }

  private static var lineRows: [MetricRow] {
    [
      MetricRow("stalld_open_stalls", .gauge, "Stalls in progress.") { Number($1.openStalls) },
      MetricRow("stalld_lines_ingested_total", .counter, "Lines of services, of any kind, also refused ones.") {
        metrics, _ in
        Number(metrics.ingestedLines)
      },
      MetricRow(
        "stalld_lines_duplicate_total", .counter, "Duplicate lines of services, not written again."
      ) { metrics, _ in Number(metrics.duplicateLines) },
      MetricRow("stalld_lines_refused_total", .counter, "Lines of services refused, by reason.") {
        metrics, _ in
        LineRefusal.allCases.map {
          MetricRow.Sample(labels: [("reason", $0.rawValue)], value: Number(metrics.refusedLines[$0] ?? 0))
        }
      },
      .ofClaims(
        "stalld_lines_dropped_by_hosts_total", "Lines that services report as dropped, by unit and user.", \.dropped),
      .ofClaims(
        "stalld_lines_spooled_total",
        "Lines that services had kept while no agent was connected, by unit and user.", \.spooled),
      MetricRow("stalld_queued_bytes", .gauge, "Bytes of lines that the agent has read and not yet written.") {
        Number($1.queuedBytes)
      },
      MetricRow(
        "stalld_queued_bytes_limit", .gauge, "The value of stalld_queued_bytes at which the agent stops reading."
      ) {
        Number($1.queuedBytesLimit)
      },
    ]
  }

  private static var outputRows: [MetricRow] {
    [
      .ofOutputs("stalld_output_lines_total", .counter, "Lines written, by output.") { Number($0.lines) },
      .ofOutputs("stalld_output_bytes_total", .counter, "Bytes written, by output.") { Number($0.bytes) },
      .ofOutputs("stalld_output_write_errors_total", .counter, "Writes that failed, by output.") {
        Number($0.writeErrors)
      },
      .ofOutputs(
        "stalld_output_dropped_lines_total", .counter, "Lines dropped: a full queue, or refused by the output."
      ) { Number($0.droppedLines) },
      .ofOutputs("stalld_output_rotations_total", .counter, "File rotations, by output.") {
        Number($0.rotations)
      },
      .ofOutputs("stalld_output_queued_lines", .gauge, "Lines waiting to be written, by output.") {
        Number($0.queuedLines)
      },
      .ofOutputs(
        "stalld_output_stuck_seconds", .gauge,
        "How long an output has written nothing while lines wait, by output; 0 below ten seconds."
      ) { Number($0.stuckSeconds) },
    ]
  }

  private static var detailRows: [MetricRow] {
    [
      .ofDetails(
        "stalld_detail_files_dropped_total",
        "Detail files dropped because they could not be written or arrived too fast.", \.dropped),
      .ofDetails("stalld_detail_files_removed_total", "Old detail files deleted because of a limit.", \.removed),
    ]
  }

  private static var connectionRows: [MetricRow] {
    [
      MetricRow("stalld_connections", .gauge, "Open connections.") { Number($1.connections) },
      MetricRow("stalld_connections_accepted_total", .counter, "Accepted connections of services.") {
        metrics, _ in
        Number(metrics.acceptedConnections)
      },
      MetricRow(
        "stalld_connections_refused_total", .counter,
        "Connections that the agent refused or closed, by reason."
      ) { metrics, _ in
        ConnectionRefusal.allCases.map {
          MetricRow.Sample(labels: [("reason", $0.rawValue)], value: Number(metrics.refusedConnections[$0] ?? 0))
        }
      },
    ]
  }

  private static var agentRows: [MetricRow] {
    [
      MetricRow("stalld_reload_failures_total", .counter, "Reloads that failed.") {
        metrics, _ in Number(metrics.failedReloads)
      },
      .ofSymbols("stalld_frames_named_total", .counter, "Frames with a name found.") { Number($0.hits) },
      .ofSymbols("stalld_frames_unnamed_total", .counter, "Frames of builds without a symbol file.") {
        Number($0.misses)
      },
      .ofSymbols("stalld_symbol_cache_bytes", .gauge, "Bytes used by the cache of names.") { Number($0.bytes) },
      .ofSymbols(
        "stalld_lines_unnamed_total", .counter,
        "Lines with unnamed frames that the agent wrote without a look-up of function names, or before it ended."
      ) { Number($0.unnamedLines) },
      .ofSymbols(
        "stalld_name_worker_restarts_total", .counter,
        "Restarts of the process that looks up function names."
      ) { Number($0.restarts) },
      MetricRow("stalld_loop_turn_seconds", .histogram, "Durations of the turns of the agent's own main loop.") {
        metrics, sample in sample.loop == nil ? nil : metrics.turnSamples
      },
    ]
  }

  private var turnSamples: [MetricRow.Sample] {
    let bounds = TurnBuckets.bounds.map(ExpositionText.text) + ["+Inf"]
    return zip(bounds, turns.counts + [turns.total]).map {
      MetricRow.Sample(labels: [("le", $0)], value: Number($1), suffix: "_bucket")
    } + [
      MetricRow.Sample(value: Number(turns.seconds), suffix: "_sum"),
      MetricRow.Sample(value: Number(turns.total), suffix: "_count"),
    ]
  }

  private static var processRows: [MetricRow] {
    [
      MetricRow(
        "process_start_time_seconds", .gauge, "When the process started, in seconds since 1970.", isOfProcess: true
      ) { _, _ in Number(ProcessFigures.startTime) },
      MetricRow("process_resident_memory_bytes", .gauge, "Resident memory of the process.", isOfProcess: true) {
        _, _ in Number(ProcessFigures.residentBytes)
      },
      MetricRow("process_cpu_seconds_total", .counter, "CPU time.", isOfProcess: true) { _, _ in
        Number(ProcessFigures.processorTime)
      },
    ]
  }
}
