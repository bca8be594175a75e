import StallReport

/// A profile as the Firefox Profiler (https://profiler.firefox.com) saves it: a track for each loop of each service and host, with its stalls
/// as samples, weighted by milliseconds, and as markers.
///
/// Version 61 of the processed format, which every newer profiler upgrades.
struct FirefoxExport {
  private static let version = 61
  /// Stalls and tracks; beyond, the longest stalls and the tracks with the most time are kept.
  static let stallLimit = 100_000
  static let trackLimit = 2000

  private let summary: ReportSummary
  private let tracks: [(key: Track, stalls: [Stall])]
  private let first: Double
  private let last: Double
  /// Stalls that are left out.
  let omitted: Int

  private struct Track: Hashable {
    var service: UInt32
    var host: UInt32
    var loop: UInt32
  }

  init(_ summary: ReportSummary) {
    self.summary = summary
    var shortest = 0.0
    if summary.stalls.count > Self.stallLimit {
      shortest = summary.stalls.map(\.milliseconds).sorted()[summary.stalls.count - Self.stallLimit]
    }
    var byTrack: [Track: [Stall]] = [:]
    for stall in summary.stalls where stall.milliseconds >= shortest {
      byTrack[Track(service: stall.service, host: stall.host, loop: stall.loop), default: []].append(stall)
    }
    let weighed = byTrack.map { (key: $0.key, stalls: $0.value, weight: $0.value.reduce(0) { $0 + $1.milliseconds }) }
    tracks = weighed.sorted { ($1.weight, $0.key.service, $0.key.host) < ($0.weight, $1.key.service, $1.key.host) }
      .prefix(Self.trackLimit).map { ($0.key, $0.stalls.sorted { ($0.start, $0.id) < ($1.start, $1.id) }) }
    first = tracks.lazy.flatMap(\.stalls).map(\.start).min() ?? 0
    last = tracks.lazy.flatMap(\.stalls).map(\.end).max() ?? 0
    omitted = summary.stalls.count - tracks.reduce(0) { $0 + $1.stalls.count }
  }

  func bytes() -> [UInt8] {
    var tables = FirefoxTables(summary)
    var threads = JSONWriter(escaping: .page)
    threads.array(tracks.enumerated()) { json, track in
      json.object { write(track.element.key, stalls: track.element.stalls, number: track.offset, &$0, &tables) }
    }
    let names = tables.libraryList.map { library in
      tables.text(library.path.lastPathPart ?? library.path)
    }
    var json = JSONWriter(escaping: .page)
    json.object { json in
      json.key("meta")
      json.object(write(meta:))
      json.key("libs")
      tables.write(libraries: &json)
      json.key("pages")
      json.array { _ in }
      json.key("shared")
      json.object { tables.write(shared: &$0, libraryNames: names) }
      json.key("threads")
      json.written(threads)
    }
    return json.bytes + [UInt8(ascii: "\n")]
  }

  private func write(meta json: inout JSONWriter) {
    for (key, text) in [
      ("product", "stalld"), ("importedFrom", "stalld report"), ("oscpu", "Linux"), ("platform", "Linux"),
    ] {
      json.key(key)
      json.value(text)
    }
    let numbers: [(String, Double)] = [
      ("interval", 1), ("startTime", first * 1000), ("profilingStartTime", 0),
      ("profilingEndTime", (last - first) * 1000),
      ("processType", 0), ("stackwalk", 1), ("version", 34), ("preprocessedProfileVersion", Double(Self.version)),
    ]
    for (key, number) in numbers {
      json.key(key)
      json.value(number)
    }
    for key in ["symbolicated", "usesOnlyOneStackType", "sourceCodeIsNotOnSearchfox", "keepProfileThreadOrder"] {
      json.key(key)
      json.value(true)
    }
    let shown = 0..<min(tracks.count, 20)
    json.key("initialVisibleThreads")
    json.array(shown)
    json.key("initialSelectedThreads")
    json.array(shown.prefix(1))
    json.key("categories")
    json.array([("Other", "grey")] + summary.causes.map { ($0, Cause(rawValue: $0)?.firefoxColor ?? "grey") }) {
      json, category in
      json.object { json in
        json.key("name")
        json.value(category.0)
        json.key("color")
        json.value(category.1)
        json.key("subcategories")
        json.array { $0.value("Other") }
      }
    }
    json.key("markerSchema")
    json.array { $0.object(write(schema:)) }
  }

  private func write(schema json: inout JSONWriter) {
    for (key, text) in [
      ("name", "stall"), ("tooltipLabel", "{marker.data.culprit}"),
      ("tableLabel", "{marker.data.cause}: {marker.data.culprit}"),
      ("chartLabel", "{marker.data.culprit}"), ("description", "A stall of a loop or a task."),
    ] {
      json.key(key)
      json.value(text)
    }
    json.key("display")
    json.array(["marker-chart", "marker-table", "timeline-overview"]) { $0.value($1) }
    json.key("fields")
    json.array([
      ("culprit", "Culprit", "unique-string"), ("cause", "Cause", "unique-string"),
      ("release", "Version", "unique-string"),
      ("id", "stall.id", "string"), ("count", "Stalls", "integer"),
    ]) { json, field in
      json.object { json in
        for (key, text) in [("key", field.0), ("label", field.1), ("format", field.2)] {
          json.key(key)
          json.value(text)
        }
      }
    }
  }

  private func write(
    _ track: Track, stalls: [Stall], number: Int, _ json: inout JSONWriter, _ tables: inout FirefoxTables
  ) {
    let (service, host) = (summary.text(track.service), summary.text(track.host))
    let end = (last - first) * 1000
    for (key, text) in [
      ("name", summary.text(track.loop)), ("processName", "\(service) on \(host)"), ("processType", "default"),
      ("pid", "\(number + 1)"),
    ] {
      json.key(key)
      json.value(text)
    }
    json.key("tid")
    json.value(number + 1)
    json.key("isMainThread")
    json.value(true)
    for (key, time) in [
      ("processStartupTime", 0), ("registerTime", 0), ("processShutdownTime", end), ("unregisterTime", end),
    ] {
      json.key(key)
      json.value(time)
    }
    json.key("pausedRanges")
    json.array { _ in }
    writeSamples(stalls, &json, &tables)
    writeMarkers(stalls, &json, &tables)
  }

  /// A sample at a stall's start that weighs what the stall took, and one of nothing at its end.
  private func writeSamples(_ stalls: [Stall], _ json: inout JSONWriter, _ tables: inout FirefoxTables) {
    var rows: [(time: Double, stack: Int, weight: Double)] = []
    let single = stalls.filter { !$0.isSummary }
    for (place, stall) in single.enumerated() {
      let category = Int(stall.cause) + 1
      let stack =
        stall.stack == Stall.noStack
        ? tables.noStack(category: category) : tables.stack(stall.stack, category: category)
      rows.append(((stall.start - first) * 1000, stack, stall.milliseconds))
      // Processes of one name may stall at once; the times of one track must increase.
      if place + 1 == single.count || single[place + 1].start > stall.end {
        rows.append(((stall.end - first) * 1000, -1, 0))
      }
    }
    json.key("samples")
    json.object { json in
      json.key("stack")
      json.array(rows) { json, row in if row.stack < 0 { json.null() } else { json.value(row.stack) } }
      json.key("time")
      json.array(rows) { $0.value($1.time) }
      json.key("weight")
      json.array(rows) { $0.value($1.weight) }
      json.key("weightType")
      json.value("tracing-ms")
      json.key("length")
      json.value(rows.count)
    }
  }

  private func writeMarkers(_ stalls: [Stall], _ json: inout JSONWriter, _ tables: inout FirefoxTables) {
    let (single, counted) = (tables.text("Stall"), tables.text("Summaries of repeated stalls"))
    json.key("markers")
    json.object { json in
      json.key("data")
      json.array(stalls) { json, stall in
        json.object { json in
          json.key("type")
          json.value("stall")
          for (key, text) in [
            ("culprit", summary.text(stall.culprit)), ("cause", summary.cause(stall.cause)),
            ("release", summary.text(stall.release)),
          ] where !text.isEmpty {
            json.key(key)
            json.value(tables.text(text))
          }
          json.key("id")
          json.value(stall.id)
          json.key("count")
          json.value(stall.count)
        }
      }
      json.key("name")
      json.array(stalls) { $0.value($1.isSummary ? counted : single) }
      json.key("startTime")
      json.array(stalls) { $0.value(($1.start - first) * 1000) }
      json.key("endTime")
      json.array(stalls) { json, stall in
        if stall.isSummary { json.null() } else { json.value((stall.end - first) * 1000) }
      }
      json.key("phase")
      // An instant, or an interval.
      json.array(stalls) { $0.value($1.isSummary ? 0 : 1) }
      json.key("category")
      json.array(stalls) { $0.value(Int($1.cause) + 1) }
      json.key("length")
      json.value(stalls.count)
    }
  }
}
