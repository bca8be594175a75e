/// The last stalls that the agent heard of, each by its latest line.
struct RecentStalls {
  private let limit: Int
  /// By the time of their first line.
  private(set) var stalls: [AgentStatus.Stall] = []

  init(limit: Int = 20) { self.limit = limit }

  /// Takes a line that goes to the outputs.
  mutating func record(_ line: ReportLine) {
    let position = stalls.lastIndex { $0.id == line.stallID }
    guard let stall = AgentStatus.Stall(line) else { return }
    if let position {
      stalls[position] = stall
    } else {
      stalls.append(stall)
      if stalls.count > limit { stalls.removeFirst() }
    }
  }
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
