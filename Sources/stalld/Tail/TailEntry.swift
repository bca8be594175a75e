import StallMonitor
import StallReport

/// What a person wants to know of a report line.
struct TailEntry {
  /// RFC 3339.
  var time: String
  /// Without `stall.`.
  var event: String
  var service: String
  var loop: String
  var durationMilliseconds: Double
  var cause: String
  var culprit: String?
  /// `DemoHost.swift:74`.
  var place: String?
  /// How many stalls a summary represents.
  var suppressed: Int?
  /// Innermost first.
  var stack: [String]
  var framesOmitted: Int

  /// Nil if the line is no report.
  init?(_ text: JSONText) {
    let root = text.root
    guard let name = text.string(root["event"]?["name"]), name.hasPrefix("stall."), let stall = root["stall"],
      let service = text.string(root["service"]?["name"]), let time = text.string(root["@timestamp"]),
      let duration = text.number(stall["duration_ms"])
    else { return nil }
    self.time = time
    event = String(name.dropFirst("stall.".count))
    self.service = service
    loop = text.string(root["loop"]?["name"]) ?? ""
    durationMilliseconds = duration
    cause = text.string(stall["cause"]) ?? Cause.unknown.rawValue
    let culprit = text.string(stall["culprit"])
    self.culprit = culprit
    suppressed = text.integer(stall["suppressed"]?["count"])
    let frames = root["stack"]?.elements ?? []
    stack = frames.map { Self.text(of: $0, in: text) }
    framesOmitted = text.integer(root["frames_omitted"]) ?? 0
    place =
      culprit == nil
      ? nil : frames.first { text.string($0["symbol"]) == culprit }.flatMap { Self.place(of: $0, in: text) }
  }

  private static func place(of frame: JSONText.Value, in text: JSONText) -> String? {
    guard let file = text.string(frame["file"]), let name = file.split(separator: "/").last else { return nil }
    return text.integer(frame["line"]).map { "\(name):\($0)" } ?? String(name)
  }

  private static func text(of frame: JSONText.Value, in text: JSONText) -> String {
    let module = text.string(frame["module"])?.split(separator: "/").last.map { String($0) } ?? "?"
    let mark = text.isTrue(frame["async"]) ? "async " : ""
    guard let symbol = text.string(frame["symbol"]) else {
      return "\(mark)\(module)+\(text.string(frame["offset"]) ?? "?")"
    }
    return "\(mark)\(symbol) (\(place(of: frame, in: text) ?? module))"
  }
}
