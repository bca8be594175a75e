import StallMonitor

/// The last stalls that the agent heard of, each by its latest line.
struct RecentStalls {
  private let limit: Int
  /// By the time of their first line; they are only read when somebody asks.
  private var lines: [ReportLine] = []

  init(limit: Int = 20) { self.limit = limit }

  /// Takes a line that goes to the outputs.
  mutating func record(_ line: ReportLine) {
    if let position = lines.lastIndex(where: { $0.stallID == line.stallID }) {
      lines[position] = line
    } else {
      lines.append(line)
      if lines.count > limit { lines.removeFirst() }
    }
  }

  var stalls: [AgentStatus.Stall] { lines.compactMap(AgentStatus.Stall.init) }
}

extension AgentStatus.Stall {
  init?(_ line: ReportLine) {
    guard let text = try? JSONText(line.bytes) else { return nil }
    self.init(
      time: text.string(text.root["@timestamp"]) ?? "", id: line.stallID, service: line.service, event: line.event,
      durationMilliseconds: line.durationMilliseconds, cause: line.cause,
      culprit: text.string(text.root["stall"]?["culprit"]), message: text.string(text.root["message"]) ?? "")
  }
}
