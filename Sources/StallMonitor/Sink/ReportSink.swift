/// A line on its way out, with what a sink has to know of it.
struct OutgoingLine: Sendable {
  /// One JSON object with its newline.
  var bytes: [UInt8]
  /// The reported stall, while it is in progress or has just ended.
  var stall: Stall?
  /// The number of lines dropped before it (`event.dropped`).
  ///
  /// If it is dropped itself, they count again.
  var droppedBefore: UInt64 = 0
  /// The same line without the path of the detail file, for the case that the file could not be written.
  var bytesWithoutDetail: [UInt8]?

  /// A stall of this process.
  struct Stall: Sendable {
    var id: String
    var isOver: Bool
  }

  init(_ bytes: [UInt8], stall: Stall? = nil, droppedBefore: UInt64 = 0, bytesWithoutDetail: [UInt8]? = nil) {
    self.bytes = bytes
    self.stall = stall
    self.droppedBefore = droppedBefore
    self.bytesWithoutDetail = bytesWithoutDetail
  }
}

/// The samples of a stall on their way out.
struct StallDetail: Sendable {
  var stallID: String
  /// One JSON object.
  var bytes: [UInt8]
}

/// Where report lines go, as the watchdog sees it.
///
/// Used on the watchdog's thread alone; only `settle` and `close` wait.
protocol ReportSink: RecordOutput {
  /// Takes a line.
  ///
  /// What cannot be sent now is kept, up to a bound; then the oldest is dropped and counted.
  func write(_ line: OutgoingLine)

  /// Returns the number of lines dropped since the last call.
  func takeDropped() -> UInt64

  /// Whether the receiver looks up the names of frames.
  var namesFrames: Bool { get }

  /// What becomes of the samples of a stall.
  var details: DetailDestination { get }

  /// The stalls whose detail file has been written.
  var writtenDetails: WrittenDetails { get }

  /// Takes the samples of a stall, as its `details` says.
  func writeDetail(_ detail: StallDetail)

  /// Waits until all lines are taken, or kept where they outlive the process; for nanoseconds at most.
  func settle(within limit: UInt64)

  /// Sends what is taken within a second, and keeps the rest if it can; the last call.
  func close()
}

/// What becomes of the samples of a stall.
enum DetailDestination: Sendable, Equatable {
  /// Nobody takes them.
  case none
  /// They become a file in this folder, and the line has its path.
  case folder(String)
  /// They go to the agent, as a message of their own.
  case agent
}

extension ReportSink {
  func write(_ bytes: [UInt8]) { write(OutgoingLine(bytes)) }

  var namesFrames: Bool { false }
  var details: DetailDestination { .none }
  var writtenDetails: WrittenDetails { WrittenDetails() }
  func writeDetail(_ detail: StallDetail) {}
}
