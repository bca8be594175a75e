import StallMonitor

/// A stall that has been told and has not ended: its last line, of which `stall.fatal` is made if the process ends.
struct OpenStall {
  var line: ReportLine
  var sequence: UInt64

  /// `stall.fatal`, from the last line: what was known when the stall was last heard of.
  ///
  /// Nil if the line, which was scanned before, cannot be read after all.
  func fatal(exit: ExitReason) -> ReportLine? {
    guard let text = try? JSONText(Array(line.bytes.dropLast())) else { return nil }
    var edits = TextEdits()
    func set(_ value: JSONText.Value?, _ new: String) {
      if let value { edits.replace(value.range, with: JSONText.quoted(new)) }
    }
    set(text.root["event"]?["name"], "stall.fatal")
    set(text.root["log.level"], "error")
    if let value = text.root["stall"]?["sequence"] {
      edits.replace(value.range, with: Array(String(sequence + 1).utf8))
    }
    if let message = text.string(text.root["message"]) {
      set(text.root["message"], Self.message(message, exit))
    }
    if let process = text.root["process"], !exit.members.bytes.isEmpty {
      edits.insert([UInt8(ascii: ",")] + exit.members.bytes, at: process.range.upperBound - 1)
    }
    var fatal = line
    fatal.event = "stall.fatal"
    fatal.isError = true
    fatal.bytes = edits.apply(to: text.bytes) + [UInt8(ascii: "\n")]
    return fatal
  }

  /// "X had stood still for at least 5 ms in f when it was last heard of, and the process was killed by SIGKILL: …".
  private static func message(_ old: String, _ exit: ExitReason) -> String {
    var text = old
    for (before, after) in [
      (" has stood still for ", " had stood still for at least "),
      (" has not answered for ", " had not answered for at least "),
    ] {
      guard let range = text.firstRange(of: before) else { continue }
      text.replaceSubrange(range, with: after)
      break
    }
    return "\(text); then the process \(exit.sentence)".limited(to: 700)
  }
}
