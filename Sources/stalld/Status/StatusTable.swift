import StallReport

/// A running agent's status for people.
struct StatusTable {
  let status: AgentStatus

  var text: String {
    var lines = head
    if !status.problems.isEmpty { lines += status.problems.map { "  problem: \($0.printable)" } }
    lines += section(
      "OUTPUT", ["target", "state", "reports", "bytes", "errors", "dropped", "queued"],
      status.outputs.map {
        [
          $0.target.map { target in "\(target)" } ?? $0.type, $0.state, "\($0.lines)",
          Quantity.bytes(Int(clamping: $0.bytes)), "\($0.errors)", "\($0.dropped)", "\($0.queued)",
        ]
      }, numbersFrom: 2)
    lines += section(
      "CLIENTS", ["service", "unit", "pid", "uid", "lines", "lines/s", "stalled", "connected since"],
      status.clients.map {
        [
          $0.service, $0.unit ?? "-", "\($0.pid)", "\($0.uid)", "\($0.lines)", Self.rate($0.linesPerSecond),
          $0.openStalls == 0 ? "-" : "\($0.openStalls)", $0.connected,
        ]
      }, numbersFrom: 2)
    if status.connections > status.clients.count {
      lines.append("  and \(status.connections - status.clients.count) more")
    }
    lines += section(
      "LAST STALLS", ["time", "service", "event", "duration", "cause", "function"],
      status.stalls.map {
        [
          String($0.time.prefix(19)) + "Z", $0.service, $0.event.replacingPrefix("stall.", with: ""),
          Quantity.duration($0.durationMilliseconds), $0.cause, $0.culprit.map(ShortSymbol.shorten) ?? "-",
        ]
      }, numbersFrom: nil)
    return lines.joined(separator: "\n") + "\n"
  }

  private var head: [String] {
    let uptime = Quantity.duration(status.uptimeSeconds * 1000)
    var lines = [
      "stalld \(status.version.printable), process \(status.pid), up \(uptime), \(Quantity.bytes(status.residentBytes)) resident: "
        + (status.problems.isEmpty ? "healthy" : "NOT HEALTHY")
    ]
    let configuration = status.configuration
    lines.append("  settings: \(Self.text(of: configuration).printable)")
    if let error = configuration.error {
      lines.append("  the last reload failed; the previous settings are in effect: \(error.printable)")
    }
    lines.append(
      "  lines of services, of any kind: \(status.linesIngested) (\(Self.rate(status.linesPerSecond))/s), \(status.linesRefused) refused, \(status.linesDuplicate) duplicate"
    )
    let queue = status.queue
    let limit = queue.bytesLimit > 0 ? " of \(Quantity.bytes(queue.bytesLimit))" : ""
    lines.append("  queue: \(queue.lines) lines, \(Quantity.bytes(queue.bytes))\(limit)")
    if let symbols = status.symbols {
      lines.append(
        "  frames: \(symbols.hits) named, \(symbols.misses) without a symbol file; symbols use \(Quantity.bytes(symbols.bytes)) of \(Quantity.bytes(symbols.bytesLimit))"
      )
    }
    return lines
  }

  private static func text(of configuration: AgentStatus.Configuration) -> String {
    guard let file = configuration.file else { return "none (defaults)" }
    return configuration.exists == false
      ? "none (defaults, STALLD_ variables and flags; \(file) does not exist)" : file
  }

  /// A table with its title; numbers are right-aligned, from a column on.
  private func section(_ title: String, _ head: [String], _ rows: [[String]], numbersFrom: Int?) -> [String] {
    guard !rows.isEmpty else { return ["", "\(title): none"] }
    let all = [head] + rows.map { $0.map(\.printable) }
    let widths = head.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    let body = all.map { row in
      let cells = row.enumerated().map { column, cell in
        let isNumber = numbersFrom.map { column >= $0 } ?? false
        return cell.padded(to: widths[column], right: isNumber)
      }
      var line = "  " + cells.joined(separator: "  ")
      while line.last == " " { line.removeLast() }
      return line
    }
    return ["", title] + body
  }

  private static func rate(_ value: Double) -> String {
    value.isFinite ? "\((value * 10).rounded() / 10)" : "?"
  }
}

extension String {
  func replacingPrefix(_ prefix: String, with other: String) -> String {
    hasPrefix(prefix) ? other + dropFirst(prefix.count) : self
  }
}
