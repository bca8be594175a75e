/// A report as it is written: one JSON object with its newline, and what outputs and counters need to know of it.
struct ReportLine: Sendable {
  var bytes: [UInt8]
  var event: String
  /// `log.level` is `error`.
  var isError: Bool
  var durationMilliseconds: Double
  let processID: Int32
  let userID: UInt32
  /// By which it is recognised when it comes again.
  var identity: ReportIdentity?
  /// Some of its frames have a build and no name, or it has all samples (``LineScanner/Parts``).
  let lacksNames: Bool
  /// Which builds those frames are of, as one number; 0 if it is not known.
  let unnamedBuilds: UInt64
  private let source: Source

  /// What stays as it is, apart from the rest: a line is copied from queue to queue.
  private final class Source: Sendable {
    let service: String
    let cause: String
    let stallID: String
    let place: String
    let controlGroup: String
    let lane: String

    init(service: String, cause: String, stallID: String, place: String, controlGroup: String, lane: String) {
      (self.service, self.cause, self.stallID) = (service, cause, stallID)
      (self.place, self.controlGroup, self.lane) = (place, controlGroup, lane)
    }
  }

  init(
    bytes: [UInt8], event: String, isError: Bool, service: String, cause: String, durationMilliseconds: Double,
    stallID: String, processID: Int32, userID: UInt32 = 0, place: String = "", identity: ReportIdentity? = nil,
    controlGroup: String = "", lane: String = "", lacksNames: Bool = false, unnamedBuilds: UInt64 = 0
  ) {
    (self.bytes, self.event, self.isError, self.identity) = (bytes, event, isError, identity)
    (self.durationMilliseconds, self.processID, self.userID) = (durationMilliseconds, processID, userID)
    (self.lacksNames, self.unnamedBuilds) = (lacksNames, unnamedBuilds)
    source = Source(
      service: service, cause: cause, stallID: stallID, place: place, controlGroup: controlGroup, lane: lane)
  }

  var service: String { source.service }
  var cause: String { source.cause }
  var stallID: String { source.stallID }
  /// The unit or container that it came from, as reported by the kernel; empty if there is none.
  var place: String { source.place }
  /// Of the process; empty if it is not known.
  var controlGroup: String { source.controlGroup }
  /// With whose other lines it waits for names (``Peer/namingLane``).
  var lane: String { source.lane }

  /// The user whose limits hold for it (``Peer/owner``).
  var owner: UInt32 { Peer.owner(ofLane: lane) ?? userID }

  /// No line at all.
  static let none = ReportLine(
    bytes: [], event: "", isError: false, service: "", cause: "", durationMilliseconds: 0, stallID: "", processID: 0)

  /// Where its parts are; nil if it is not one of the agent's own lines.
  var parts: LineScanner.Parts? {
    bytes.withUnsafeBufferPointer {
      try? LineScanner.scan(UnsafeBufferPointer(rebasing: $0.dropLast()), isStamped: true)
    }
  }

  /// The text of a string's range.
  func text(_ range: Range<Int>) -> String {
    Ingest.unescaped(String(decoding: bytes[range].dropFirst().dropLast(), as: UTF8.self))
  }

  /// Takes the worker's line for its own, without a newline, if what identifies the stall and its sender is unchanged.
  ///
  /// The worker reads other users' files: what it says of the process, or which stall it is, is not believed.
  mutating func takeNames(_ named: [UInt8]) {
    guard named.count < Ingest.longestReport, !named.contains(UInt8(ascii: "\n")), let old = parts else { return }
    var result = self
    result.bytes = named + [UInt8(ascii: "\n")]
    guard let new = result.parts, new.kind == .report, new.missing == nil else { return }
    // What identifies the stall and its sender, and its time and cause: no name changes them.
    let constant: [KeyPath<LineScanner.Parts, Range<Int>?>] = [
      \.process, \.systemd, \.stallID, \.sequence, \.eventName, \.schema, \.level, \.time, \.duration, \.cause,
      \.service, \.tally, \.phase, \.dropped,
    ]
    guard constant.allSatisfy({ old[keyPath: $0].map { bytes[$0] } == new[keyPath: $0].map { result.bytes[$0] } })
    else { return }
    bytes = result.bytes
  }

  /// Takes out its samples, the last threads, and frames from the middle of its own stack, if it is longer than what outputs take.
  ///
  /// Costs a millisecond for the longest lines.
  mutating func shorten() {
    guard bytes.count > Ingest.longestReport else { return }
    let line = ReportCompletion { _, _, _ in nil }.complete(bytes.dropLast())
    if case .completed(let shorter, _) = line, shorter.count < Ingest.longestReport {
      bytes = shorter + [UInt8(ascii: "\n")]
    }
  }
}
