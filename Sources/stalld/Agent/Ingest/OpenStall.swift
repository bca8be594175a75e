import LoopEngine
import StallMonitor
import StallReport

/// A reported stall that has not ended: its last line, which the agent turns into a report if the process ends.
struct OpenStall {
  var line: ReportLine
  var sequence: UInt64
  /// Where the process notes that it is over.
  var recovery: RecoveryMemory?
  /// When its last line came.
  var heard = Loop.Instant.now

  /// `stall.fatal`, from the last line: what was known when the stall was last heard of.
  ///
  /// Nil if the line, which was scanned before, cannot be read after all.
  func fatal(exit: ExitReason, silence: Duration = .zero) -> ReportLine? {
    derived(.fatal, isError: true) { parts, edits in
      if let process = parts.process, !exit.members.bytes.isEmpty {
        edits.insert([UInt8(ascii: ",")] + exit.members.bytes, at: process.upperBound - 1)
      }
      return { Self.fatalMessage($0, exit, silence) }
    }
  }

  /// `stall.ended`, from the last line and what the loop itself has noted; the rest is as it was last heard.
  ///
  /// `nanoseconds` is how long it was, if that is known.
  func ended(after nanoseconds: UInt64?) -> ReportLine? {
    let old = UInt64(max(0, min(line.durationMilliseconds, 1e12)) * 1e6)
    let isKnown = nanoseconds.map { $0 >= old } ?? false
    let new = isKnown ? min(nanoseconds ?? old, UInt64(1e18)) : old
    var ended = derived(.ended, isError: false) { parts, edits in
      if isKnown, let value = parts.duration {
        var duration = JSONWriter()
        duration.value(milliseconds: new)
        edits.replace(value, with: duration.bytes)
      }
      if let value = parts.time, let time = Timestamp(rfc3339: line.text(value), form: .report)?.nanosecondsSince1970,
        time < UInt64(Int64.max) - new
      {
        edits.replace(value, with: JSONWriter.quoted(Timestamp(nanosecondsSince1970: time + (new - old)).text))
      }
      // A heartbeat is posted at some time into the stall.
      let isLeast = !isKnown || parts.phase.map(line.text) == "heartbeat"
      return { Self.endedMessage($0, milliseconds: (new + 500_000) / 1_000_000, isLeast: isLeast) }
    }
    ended?.durationMilliseconds = Double(new) / 1e6
    return ended
  }

  /// The last line as another event, with the number after its own; `edit` gives the new message.
  ///
  /// By the places of a scan: a process may end in hundreds of stalls, on the agent's loop.
  private func derived(
    _ event: Report.Event, isError: Bool, _ edit: (LineScanner.Parts, inout TextEdits) -> (String) -> String
  ) -> ReportLine? {
    guard let parts = line.parts else { return nil }
    var edits = TextEdits()
    func set(_ range: Range<Int>?, _ new: String) {
      if let range { edits.replace(range, with: JSONWriter.quoted(new)) }
    }
    set(parts.eventName, event.rawValue)
    set(parts.level, isError ? "error" : "warn")
    // The last line has reported them.
    if parts.dropped != nil, let text = try? JSONText(Array(line.bytes.dropLast())),
      let member = text.root["event"]?.removal(of: "dropped")
    {
      edits.replace(member, with: [])
    }
    if let range = parts.sequence { edits.replace(range, with: Array(String(sequence + 1).utf8)) }
    let message = edit(parts, &edits)
    if let range = parts.message { set(range, message(line.text(range))) }
    var derived = line
    derived.event = event.rawValue
    derived.isError = isError
    derived.bytes = edits.apply(to: line.bytes)
    return derived
  }

  /// Returns "X had been blocked for at least 5 ms in f: …; then the process was killed by SIGKILL".
  private static func fatalMessage(_ old: String, _ exit: ExitReason, _ silence: Duration) -> String {
    var text = old
    for phrase in phrases {
      guard let range = text.firstRange(of: " has \(phrase.ongoing) for ") else { continue }
      text.replaceSubrange(range, with: " had \(phrase.verb.participle) for at least ")
      break
    }
    // A service reports an ongoing stall at least once a minute.
    let seconds = silence.components.seconds
    let then = seconds >= 90 ? "; the last report was \(seconds) s before the end: the process" : "; then the process"
    return "\(text)\(then) \(exit.sentence)".limited(to: 700)
  }

  /// Returns "X blocked for 312 ms in f: …; the process ended without another report".
  private static func endedMessage(_ old: String, milliseconds: UInt64, isLeast: Bool) -> String {
    var text = old
    for phrase in phrases {
      guard let range = text.firstRange(of: " has \(phrase.ongoing) for ") else { continue }
      let number = text[range.upperBound...].prefix { $0.isNumber }
      text.replaceSubrange(
        range.lowerBound..<number.endIndex,
        with: " \(phrase.verb.past) for \(isLeast ? "at least " : "")\(milliseconds)")
      break
    }
    return "\(text); the process ended without another report".limited(to: 700)
  }

  /// The verbs of a message while a stall lasts, and what they are afterwards: this version's, and those of earlier ones.
  private static let phrases: [(ongoing: String, verb: StallVerb)] =
    StallVerb.allCases.map { ($0.participle, $0) } + [
      ("stood still", .blocked),  // check-words: allow
      ("not answered", .didNotRespond),
      ("been paused", .stopped),
      ("held its thread", .blockedItsThread),
    ]
}
