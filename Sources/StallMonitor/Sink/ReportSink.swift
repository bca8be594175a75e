/// A line on its way out, with what a sink has to know of it.
struct OutgoingLine: Sendable {
  /// One JSON object with its newline.
  var bytes: [UInt8]
  /// The stall that it tells of, while that goes on or has just ended.
  var stall: Stall?
  /// How many lines it says were dropped before it (`event.dropped`): if it is dropped itself, they count anew.
  var droppedBefore: UInt64 = 0

  /// A stall of this process.
  struct Stall: Sendable {
    var id: String
    var isOver: Bool
  }

  init(_ bytes: [UInt8], stall: Stall? = nil, droppedBefore: UInt64 = 0) {
    self.bytes = bytes
    self.stall = stall
    self.droppedBefore = droppedBefore
  }
}

/// Where report lines go.
///
/// Used on the watchdog's thread alone; no call but the last two waits for anybody.
protocol ReportSink: AnyObject {
  /// Takes a line.
  ///
  /// What cannot be sent now is kept, up to a bound; then the oldest is dropped and counted.
  func write(_ line: OutgoingLine)

  /// The number of lines dropped since the last call.
  func takeDropped() -> UInt64

  /// Sends what waits, as far as it is taken.
  func flush()

  /// Whether ``flush()`` is to be called again after a while.
  var wantsFlush: Bool { get }

  /// Whether all lines have been taken.
  ///
  /// Where that comes without ``flush()`` being called, the watchdog is woken for it, if it has asked.
  var isSettled: Bool { get }

  /// Whether somebody behind it names the frames of reports.
  var namesFrames: Bool { get }

  /// Whether it takes the samples of a stall, too: then no file is written of them.
  var takesDetails: Bool { get }

  /// Takes the samples of a stall: one JSON object with its newline.
  func writeDetail(_ bytes: [UInt8])

  /// Waits until all lines are taken, or kept where they outlive the process; for nanoseconds at most.
  func settle(within limit: UInt64)

  /// The last call: sends what is taken within a second, and keeps the rest if it can.
  func close()
}

extension ReportSink {
  func write(_ bytes: [UInt8]) { write(OutgoingLine(bytes)) }

  var namesFrames: Bool { false }
  var takesDetails: Bool { false }
  func writeDetail(_ bytes: [UInt8]) {}
}
