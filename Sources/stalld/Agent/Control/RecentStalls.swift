/// The last stalls that the agent heard of, each by its latest line.
struct RecentStalls {
  private let limit: Int
  /// By the time of their first line; they are only read on request.
  private var lines: [ReportLine] = []

  init(limit: Int = 20) { self.limit = limit }

  /// Takes a line on its way to the outputs, with the names that it has there.
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
    // A scan instead of a parser: a status request must not delay the lines.
    guard let parts = line.parts else { return nil }
    self.init(
      time: parts.time.map(line.text) ?? "", id: line.stallID, service: line.service, event: line.event,
      durationMilliseconds: line.durationMilliseconds, cause: line.cause, culprit: parts.culprit.map(line.text),
      message: parts.message.map(line.text) ?? "")
  }
}
