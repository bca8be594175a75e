import StallMonitor
import StallReport

/// One JSON object.
enum JSONFormat: ReportFormat {
  static func text(of summary: ReportSummary, _ view: ReportView) -> String {
    var object = JSONWriter()
    object.member("by", summary.grouping.rawValue)
    object.member("since", summary.since.map(GroupColumn.timeText))
    object.member("lines", summary.lines)
    object.object("unreadable", required: true) {
      $0.member("count", summary.unreadable.count)
      $0.array("first", summary.unreadable.prefix(SkippedLines.namedLimit).map(Self.failure))
    }
    object.object("skipped", required: true) {
      $0.member("count", summary.skipped.count)
      $0.array("first", summary.skipped.named.map(Self.line))
    }
    object.member("stalls", summary.groups.reduce(0) { $0 + $1.count })
    object.member("total_ms", milliseconds: nanoseconds(summary.groups.reduce(0) { $0 + $1.milliseconds }))
    object.member("group_count", summary.groups.count)
    object.array("groups", summary.groups.prefix(view.limit).map { Self.group($0, summary, view) })
    return text(object, view)
  }

  static func text(of comparison: ReportComparison, _ view: ReportView) -> String {
    var object = JSONWriter()
    object.member("by", comparison.grouping.rawValue)
    object.member("since", comparison.since.map(GroupColumn.timeText))
    object.object("old", required: true) { Self.write(comparison.old, to: &$0) }
    object.object("new", required: true) { Self.write(comparison.new, to: &$0) }
    object.array("changes", comparison.changes.prefix(view.limit).map(Self.change))
    return text(object, view)
  }

  private static func text(_ object: JSONWriter, _ view: ReportView) -> String {
    let text = String(decoding: object.terminated(), as: UTF8.self)
    return view.screen.isTerminal ? TerminalText.printableJSON(text) : text
  }

  private static func failure(_ failure: InputFiles.Failure) -> JSONWriter {
    var object = JSONWriter()
    object.member("file", failure.file)
    object.member("reason", failure.reason)
    return object
  }

  private static func line(_ line: SkippedLines.Line) -> JSONWriter {
    var object = JSONWriter()
    object.member("file", line.file)
    object.member("line", line.number)
    object.member("reason", line.reason)
    return object
  }

  private static func group(_ group: StallGroup, _ summary: ReportSummary, _ view: ReportView) -> JSONWriter {
    var object = JSONWriter()
    for column in GroupColumn.all { column.write(group, to: &object) }
    if view.showsStacks, let number = group.stack {
      object.array("stack", summary.frames(of: summary.stacks[number]).map { frame(of: $0, summary) })
    }
    return object
  }

  private static func frame(of frame: ReportFrame, _ summary: ReportSummary) -> JSONWriter {
    func text(_ number: UInt32) -> String? { number == 0 ? nil : summary.text(number) }
    var result = StackFrame(
      symbol: text(frame.symbol), file: text(frame.file), line: frame.line > 0 ? Int(frame.line) : nil,
      isInlined: frame.isInlined, module: text(frame.module), buildID: text(frame.buildID), offset: frame.offset)
    result.isAsync = frame.isAsync
    return result.wholeJSON
  }

  private static func write(_ side: ReportComparison.Side, to object: inout JSONWriter) {
    object.member("name", side.name)
    object.member("count", side.count)
    object.member("total_ms", milliseconds: nanoseconds(side.milliseconds))
    object.member("hosts", side.hosts)
    object.member("span_ms", milliseconds: nanoseconds(side.span))
    object.member("unreadable", side.unreadable)
  }

  private static func change(_ change: ReportComparison.Change) -> JSONWriter {
    var object = JSONWriter()
    object.member("key", change.key.isEmpty ? nil : change.key)
    for column in ComparisonColumn.all { column.write(change, to: &object) }
    return object
  }

  static func nanoseconds(_ milliseconds: Double?) -> UInt64? {
    milliseconds.flatMap { UInt64(exactly: ($0 * 1e6).rounded()) }
  }
}
