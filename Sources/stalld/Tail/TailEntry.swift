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
  var stack: [Frame]
  var framesOmitted: Int

  struct Frame {
    /// Empty if the function is not known.
    var symbol: String
    /// The path; empty if it is not known.
    var module: String
    var offset: String?
    /// `DemoHost.swift:74`.
    var place: String?
    /// The function is not on the stack: it waits for an asynchronous call.
    var isAsync: Bool
  }

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
    stack = frames.map { frame in
      Frame(
        symbol: text.string(frame["symbol"]) ?? "", module: text.string(frame["module"]) ?? "",
        offset: text.string(frame["offset"]), place: Self.place(of: frame, in: text),
        isAsync: text.isTrue(frame["async"]))
    }
    framesOmitted = text.integer(root["frames_omitted"]) ?? 0
    place = culprit.flatMap { culprit in stack.first { $0.symbol == culprit } }?.place
  }

  private static func place(of frame: JSONText.Value, in text: JSONText) -> String? {
    guard let file = text.string(frame["file"]), let name = file.lastPathPart else { return nil }
    return text.integer(frame["line"]).map { "\(name):\($0)" } ?? name
  }
}
