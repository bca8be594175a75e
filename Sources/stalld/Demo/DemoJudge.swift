import StallReport

/// Compares the lines of the demo's service with what was planned.
final class DemoJudge {
  /// What the judge reads of a line.
  private struct Line {
    struct Frame {
      var symbol: String?
      var file: String?
      var line: Int?
    }
    var event: String
    var stallID: String
    var culprit: String?
    var cause: String
    var milliseconds: Double
    var stack: [Frame]

    /// Nil if it is no report.
    init?(_ bytes: [UInt8]) {
      guard let text = try? JSONText(bytes), let event = text.string(text.root["event"]?["name"]),
        let stall = text.root["stall"], let id = text.string(stall["id"]), let cause = text.string(stall["cause"]),
        let milliseconds = text.number(stall["duration_ms"]), let frames = text.root["stack"]?.elements
      else { return nil }
      (self.event, stallID, self.cause, self.milliseconds) = (event, id, cause, milliseconds)
      culprit = text.string(stall["culprit"])
      stack = frames.map {
        Frame(symbol: text.string($0["symbol"]), file: text.string($0["file"]), line: text.integer($0["line"]))
      }
    }
  }

  /// The name in reports of a service's function without a name, up to its offset.
  private let unnamed: String
  private var faults: [String] = []
  // What each stall was planned as, from the first line that names a function.
  private var known: [String: PlannedStall] = [:]
  private var ended: [PlannedStall] = []
  private var lines = 0
  private var hasUnnamed = false
  // Stalls for whose latest line no function is responsible: on a busy machine, any turn can be late.
  private var delays: Set<String> = []

  /// `program` is the file name of the service's executable.
  init(program: String) { unnamed = program + "+0x" }

  /// Takes a line of the service.
  ///
  /// Returns the text to print for a line, if there is any.
  func take(_ bytes: [UInt8]) -> String? {
    lines += 1
    if bytes.count > Report.longestLine {
      faults.append("line \(lines) has \(bytes.count) bytes, more than \(Report.longestLine)")
    }
    guard let line = Line(bytes) else {
      faults.append("line \(lines) is not a report")
      return nil
    }
    guard let culprit = line.culprit else {
      delays.insert(line.stallID)
      return nil
    }
    delays.remove(line.stallID)
    guard let plan = plan(of: line, with: culprit) else {
      faults.append("\(line.event) names \(culprit), which is not a planned stall")
      return nil
    }
    if !plan.causes.map(\.rawValue).contains(line.cause) {
      faults.append(
        "\(line.event) of \(plan.function) gives \(line.cause) as the cause, not \(plan.causes[0].rawValue)")
    }
    known[line.stallID] = plan
    guard line.event == Report.Event.ended.rawValue else { return nil }
    ended.append(plan)
    let milliseconds = Double(plan.duration / .milliseconds(1))
    // It cannot have been shorter than it was planned; how much longer depends on the machine.
    if line.milliseconds < milliseconds - 1 {
      faults.append("\(plan.function) was reported with \(line.milliseconds) ms instead of \(milliseconds)")
    }
    let isUnnamed = culprit.hasPrefix(unnamed)
    let place = line.stack.first { $0.symbol == culprit }
    let position = place?.file.map { file in
      " (\(file.lastPathPart ?? "")\(place?.line.map { ":\($0)" } ?? ""))"
    }
    return
      "  \(padded(line.cause, 8)) \(padded("\(Int(line.milliseconds.rounded())) ms", 8)) \(culprit)\(position ?? "")\(isUnnamed ? " (\(plan.function)(), by its turn)" : "")"
  }

  /// The stall that a line is of: the one that it names, or in a program without names the one whose turn it is.
  private func plan(of line: Line, with culprit: String) -> PlannedStall? {
    guard culprit.hasPrefix(unnamed) else {
      return PlannedStall.allCases.first { culprit.contains($0.function + "()") }
    }
    hasUnnamed = true
    return known[line.stallID]
      ?? (known.count < PlannedStall.allCases.count ? PlannedStall.allCases[known.count] : nil)
  }

  /// The judgement over all lines.
  func verdict(hostStatus: Int32) -> (isGood: Bool, account: String) {
    if hostStatus != 0 { faults.append("the service failed (wait status \(hostStatus))") }
    for plan in PlannedStall.allCases {
      let count = ended.count { $0 == plan }
      if count != 1 { faults.append("\(plan.function) was reported \(count) times, not once") }
    }
    if known.count > ended.count { faults.append("\(known.count - ended.count) stalls have no end") }
    if faults.isEmpty {
      let names =
        hasUnnamed
        ? " Reports have offsets instead of function names: libdw is missing, or this program is stripped." : ""
      let others =
        delays.isEmpty
        ? "nothing else was"
        : "turns that were late on this busy machine, for which no function is responsible: \(delays.count)"
      return (
        true, "All \(PlannedStall.allCases.count) planned stalls were reported, and \(others) (\(lines) lines).\(names)"
      )
    }
    return (false, "Not as planned:\n" + faults.map { "  - \($0)" }.joined(separator: "\n"))
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.utf8.count))
  }
}
