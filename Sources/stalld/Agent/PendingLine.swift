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
  /// The report of which this place stands for a repetition: it is not acknowledged before that is written.
  var repeats: ReportIdentity?
}
