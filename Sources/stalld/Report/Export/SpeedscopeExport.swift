import StallReport

/// A file of speedscope (https://www.speedscope.app/file-format-schema.json): all stalls, then those of each service.
struct SpeedscopeExport {
  let summary: ReportSummary
  /// Services that get a profile of their own.
  private static let serviceLimit = 100

  func bytes() -> [UInt8] {
    let shares = StackShare.all(of: summary, perHost: false)
    var frames: [Frame: Int] = [:]
    var list: [Frame] = []
    func number(of frame: Frame) -> Int {
      if let known = frames[frame] { return known }
      frames[frame] = list.count
      list.append(frame)
      return list.count - 1
    }
    let samples = shares.map { share, sum in
      let frames = share.frames(summary).reversed().map {
        Frame(name: summary.name(of: $0), file: $0.file, line: $0.line)
      }
      return (
        share: share, stack: (frames.isEmpty ? [Frame(name: "(no stack)")] : frames).map(number),
        weight: sum.milliseconds
      )
    }
    var services: [UInt32: Double] = [:]
    for sample in samples { services[sample.share.service, default: 0] += sample.weight }
    let ranked = services.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.serviceLimit).map(\.key)
    let profiles =
      [("All stalls", samples)]
      + ranked.map { service in
        (summary.text(service), samples.filter { $0.share.service == service })
      }
    var json = JSONWriter(escaping: .page)
    json.object { json in
      json.key("$schema")
      json.value("https://www.speedscope.app/file-format-schema.json")
      json.key("exporter")
      json.value("stalld report")
      json.key("name")
      json.value("Stalls")
      json.key("activeProfileIndex")
      json.value(0)
      json.key("shared")
      json.object { json in
        json.key("frames")
        json.array(list) { json, frame in json.object { write(frame, &$0) } }
      }
      json.key("profiles")
      json.array(profiles) { json, profile in
        json.object { json in
          for (key, text) in [("type", "sampled"), ("name", profile.0), ("unit", "milliseconds")] {
            json.key(key)
            json.value(text)
          }
          json.key("startValue")
          json.value(0)
          json.key("endValue")
          json.value(profile.1.reduce(0) { $0 + $1.weight })
          json.key("samples")
          json.array(profile.1) { $0.array($1.stack) }
          json.key("weights")
          json.array(profile.1) { $0.value($1.weight) }
        }
      }
    }
    return json.bytes + [UInt8(ascii: "\n")]
  }

  private struct Frame: Hashable {
    var name: String
    var file: UInt32 = 0
    var line: UInt32 = 0
  }

  private func write(_ frame: Frame, _ json: inout JSONWriter) {
    json.key("name")
    json.value(frame.name)
    if frame.file != 0 {
      json.key("file")
      json.value(summary.text(frame.file))
    }
    if frame.line != 0 {
      json.key("line")
      json.value(frame.line)
    }
  }
}
