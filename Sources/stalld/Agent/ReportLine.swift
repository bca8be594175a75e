/// A report as it is written: one JSON object with its newline, and what outputs and counters need to know of it.
struct ReportLine: Sendable {
  var bytes: [UInt8]
  var event: String
  /// `log.level` is `error`.
  var isError: Bool
  var service: String
  var cause: String
  var durationMilliseconds: Double
  var stallID: String
  var processID: Int32
  var userID: UInt32 = 0
  /// The unit or container that it came from, as the kernel tells it; empty if there is none.
  var place = ""
  /// By which it is recognised when it comes again.
  var identity: ReportIdentity?
  /// Of the process; empty if it is not known.
  var controlGroup = ""
  /// With whose other lines it waits for names (``Peer/namingLane``).
  var lane = ""
  /// Some of its frames have a build and no name, or it has all samples (``LineScanner/Parts``).
  var lacksNames = false
  /// Which builds those frames are of, as one number; 0 if it is not known.
  var unnamedBuilds: UInt64 = 0

  /// No line at all.
  static let none = ReportLine(
    bytes: [], event: "", isError: false, service: "", cause: "", durationMilliseconds: 0, stallID: "", processID: 0)

  /// Where its parts are; nil if it is none of the agent's own lines.
  var parts: LineScanner.Parts? {
    bytes.withUnsafeBufferPointer {
      try? LineScanner.scan(UnsafeBufferPointer(rebasing: $0.dropLast()), isStamped: true)
    }
  }

  /// The text of a string's range.
  func text(_ range: Range<Int>) -> String {
    Ingest.unescaped(String(decoding: bytes[range].dropFirst().dropLast(), as: UTF8.self))
  }

  /// Takes the worker's line for its own, without a newline, if only what may change has changed.
  ///
  /// The worker reads strangers' files: what it says of the process, or which stall it is, is not believed.
  mutating func takeNames(_ named: [UInt8]) {
    guard named.count < Ingest.longestReport, !named.contains(UInt8(ascii: "\n")), let old = parts else { return }
    var result = self
    result.bytes = named + [UInt8(ascii: "\n")]
    guard let new = result.parts, new.kind == .report, new.missing == nil else { return }
    let constant: [KeyPath<LineScanner.Parts, Range<Int>?>] = [
      \.process, \.systemd, \.stallID, \.sequence, \.eventName, \.schema, \.level, \.time, \.duration, \.cause,
      \.service,
    ]
    guard constant.allSatisfy({ old[keyPath: $0].map { bytes[$0] } == new[keyPath: $0].map { result.bytes[$0] } })
    else { return }
    bytes = result.bytes
  }

  /// Takes frames out of the middles of its stacks, and threads, if it is longer than what outputs take.
  ///
  /// Costs one pass over the line.
  mutating func shorten() {
    guard bytes.count > Ingest.longestReport, let shorter = LineShortener.shorten(bytes) else { return }
    bytes = shorter
  }
}
