/// A line on its way to the outputs, and whose it is.
struct PendingLine {
  /// The connection that waits for its acknowledgement; 0 if none does.
  var connection: UInt64
  /// Which of that connection's lines it is, from 1.
  var number: UInt64
  /// Whose lines it must not overtake.
  var process: Int32
  /// Nil if nothing is to be written: it only keeps its place in the order of the process's lines.
  var line: ReportLine?
  /// The size, which counts against the memory limit.
  var bytes: Int
  /// The report that this line repeats: the line is not acknowledged before that report is written.
  var repeats: ReportIdentity?
}
