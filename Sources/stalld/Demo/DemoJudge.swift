import FoundationEssentials
import Glibc

/// Compares the lines of the demo's host with what was planned.
final class DemoJudge {
  /// What the judge reads of a line.
  private struct Line: Decodable {
    struct Event: Decodable { var name: String }
    struct Stall: Decodable {
      var id: String
      var culprit: String?
      var cause: String
      var duration_ms: Double
    }
    struct Frame: Decodable {
      var symbol: String?
      var file: String?
      var line: Int?
    }
    var event: Event
    var stall: Stall
    var stack: [Frame]
  }

  /// What a function of the host's is called that has no name, up to its offset.
  private let unnamed: String
  private var faults: [String] = []
  private var started: [String: PlannedStall] = [:]
  private var ended: [PlannedStall] = []
  private var lines = 0
  private var beginnings = 0
  private var hasUnnamed = false

  /// `program` is the file name of the host's executable.
  init(program: String) { unnamed = program + "+0x" }

  /// Takes a line of the host.
  ///
  /// Returns what to tell people, if it is worth telling.
  func take(_ bytes: [UInt8]) -> String? {
    lines += 1
    if bytes.count > 8000 { faults.append("line \(lines) has \(bytes.count) bytes, more than 8000") }
    guard let line = try? JSONDecoder().decode(Line.self, from: Data(bytes)) else {
      faults.append("line \(lines) is not a report")
      return nil
    }
    let culprit = line.stall.culprit ?? "nothing"
    guard let plan = plan(of: line, blaming: culprit) else {
      faults.append("\(line.event.name) blames \(culprit), which was not planned to stall")
      return nil
    }
    if !plan.causes.map(\.rawValue).contains(line.stall.cause) {
      faults.append(
        "\(line.event.name) of \(plan.function) gives \(line.stall.cause) as the cause, not \(plan.causes[0].rawValue)")
    }
    if line.event.name == "stall.started" { started[line.stall.id] = plan }
    guard line.event.name == "stall.ended" else { return nil }
    if started[line.stall.id] == nil { faults.append("\(plan.function) has an end without a beginning") }
    ended.append(plan)
    let milliseconds = Double(plan.duration / .milliseconds(1))
    // It cannot have been shorter than it was planned; how much longer depends on the machine.
    if line.stall.duration_ms < milliseconds - 1 {
      faults.append("\(plan.function) is said to have taken \(line.stall.duration_ms) ms instead of \(milliseconds)")
    }
    let isUnnamed = culprit.hasPrefix(unnamed)
    let place = line.stack.first { $0.symbol == culprit }
    let position = place?.file.map { file in
      " (\(file.split(separator: "/").last ?? "")\(place?.line.map { ":\($0)" } ?? ""))"
    }
    return
      "  \(padded(line.stall.cause, 8)) \(padded("\(Int(line.stall.duration_ms.rounded())) ms", 8)) \(culprit)\(position ?? "")\(isUnnamed ? " (\(plan.function)(), by its turn)" : "")"
  }

  /// The stall that a line is of: the one that it names, or in a program without names the one whose turn it is.
  private func plan(of line: Line, blaming culprit: String) -> PlannedStall? {
    guard culprit.hasPrefix(unnamed) else {
      return PlannedStall.allCases.first { culprit.contains($0.function + "()") }
    }
    hasUnnamed = true
    guard line.event.name == "stall.started" else { return started[line.stall.id] }
    defer { beginnings += 1 }
    return beginnings < PlannedStall.allCases.count ? PlannedStall.allCases[beginnings] : nil
  }

  /// The judgement over all lines.
  func verdict(hostStatus: Int32) -> (isGood: Bool, account: String) {
    if hostStatus != 0 { faults.append("the host did not end well (wait status \(hostStatus))") }
    for plan in PlannedStall.allCases {
      let count = ended.count { $0 == plan }
      if count != 1 { faults.append("\(plan.function) was reported \(count) times, not once") }
    }
    if started.count > ended.count { faults.append("\(started.count - ended.count) stalls were never said to end") }
    if faults.isEmpty {
      let names = hasUnnamed ? " This program is stripped of names: its functions are told by their offsets." : ""
      return (
        true,
        "All \(PlannedStall.allCases.count) planned stalls were reported, and nothing else was (\(lines) lines).\(names)"
      )
    }
    return (false, "Not as planned:\n" + faults.map { "  - \($0)" }.joined(separator: "\n"))
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.utf8.count))
  }
}
