import CLinux
import StallCapture

/// The lines that an agent has not acknowledged: the newest in memory, older ones in a file once there are too many or it takes too long.
///
/// What does not fit is dropped, oldest first. Belongs to the agent's thread.
final class Spool {
  /// What is kept in memory.
  static let memoryLines = OutputSink.itemLimit
  static let memoryBytes = OutputSink.byteLimit
  /// How many files there may be of a service, its dead processes' included: one that ends repeatedly, without an agent, must not fill the
  /// disk.
  static let fileLimit = 64

  /// Where the file is to be.
  struct Location {
    var directory: StateDirectory
    /// What its name begins with.
    var prefix: String
    /// Others need the place for their own, as `/dev/shm`: then there are 4 files of 1 MiB, and nothing is written while less than a quarter of it is free.
    var isShared = false

    fileprivate var fileLimit: Int { isShared ? 4 : Spool.fileLimit }
    fileprivate var ringSize: Int { isShared ? (1 << 20) - SpoolFormat.headSize : SpoolFormat.ringSize }
    fileprivate var isTooFull: Bool {
      isShared && (try? directory.use { clinux_has_quarter_free($0) }) != true
    }
  }

  /// A line that was lost.
  struct Lost {
    var serial: UInt64
    /// How many lines are lost with it: itself, and those in its `event.dropped`.
    var count: UInt64
  }

  private struct Kept {
    var serial: UInt64
    var line: OutgoingLine
    /// It holds a stall's samples: the first to go, and never in the file.
    var isDetail: Bool
    /// When it came.
    var time: UInt64
  }

  private let location: Location?
  private var memory: [Kept] = []
  private var bytes = 0
  private var file: SpoolFile?
  private var hasComplained = false
  /// The number of the next line.
  private(set) var end: UInt64 = 0
  /// Called with each report line that had to be dropped.
  var didLose: (Lost) -> Void = { _ in }

  /// Without a place there is memory alone.
  init(in location: Location?) { self.location = location }

  var count: Int { memory.count + (file?.entries.count ?? 0) }
  var isEmpty: Bool { memory.isEmpty && file == nil }

  /// Adds a line.
  ///
  /// Returns its number; numbers grow.
  @discardableResult
  func append(_ line: OutgoingLine, isDetail: Bool = false) -> UInt64 {
    let serial = end
    end += 1
    memory.append(Kept(serial: serial, line: line, isDetail: isDetail, time: MonotonicClock.now()))
    bytes += line.bytes.count
    while memory.count > Self.memoryLines || bytes > Self.memoryBytes { makeRoom() }
    return serial
  }

  /// The oldest line whose number is at least `serial`.
  func next(from serial: UInt64) -> (serial: UInt64, line: OutgoingLine)? {
    let index = Self.index(of: serial, in: memory, \.serial)
    // Samples stay in memory, between lines that are in the file.
    let inMemory = index < memory.count ? memory[index].serial : .max
    if let file, let last = file.entries.last, last.serial >= serial,
      case let entry = file.entries[Self.index(of: serial, in: file.entries, \.serial)], entry.serial < inMemory
    {
      if let bytes = file.read(entry) { return (entry.serial, OutgoingLine(bytes, droppedBefore: entry.droppedBefore)) }
      // No process can read it any more: the service has closed it, and another program has removed
      // it.
      for entry in file.entries { didLose(Lost(serial: entry.serial, count: 1 + entry.droppedBefore)) }
      file.remove()
      self.file = nil
    }
    return index < memory.count ? (memory[index].serial, memory[index].line) : nil
  }

  /// Whether the line has been neither acknowledged nor dropped.
  func contains(_ serial: UInt64) -> Bool {
    if let file {
      let index = Self.index(of: serial, in: file.entries, \.serial)
      if index < file.entries.count, file.entries[index].serial == serial { return true }
    }
    // Samples stay in memory, between lines that are in the file.
    let index = Self.index(of: serial, in: memory, \.serial)
    return index < memory.count && memory[index].serial == serial
  }

  /// Lets all lines up to this one go.
  func acknowledge(through serial: UInt64) {
    if let file {
      let count = Self.index(of: serial + 1, in: file.entries, \.serial)
      if count > 0 { file.removeFirst(count) }
      closeIfEmpty()
    }
    let count = Self.index(of: serial + 1, in: memory, \.serial)
    for kept in memory.prefix(count) { bytes -= kept.line.bytes.count }
    memory.removeFirst(count)
  }

  /// Puts reports that came before `time` into the file, so that they outlive a kill of this process.
  ///
  /// A line that would replace an older one there stays in memory. Without a file, all lines stay
  /// in memory.
  func keep(before time: UInt64 = .max) {
    guard location != nil, !hasComplained else { return }
    var count = 0
    while let index = memory.indices.dropFirst(count).first(where: { !memory[$0].isDetail }) {
      let kept = memory[index]
      guard kept.time < time, kept.line.bytes.count <= SpoolFormat.longestLine, openFile() != nil,
        file?.hasRoom(for: kept.line.bytes.count) == true, put(kept)
      else { return }
      memory.remove(at: index)
      bytes -= kept.line.bytes.count
      count = index
    }
  }

  /// When the oldest report came that is only in memory, and could be in the file; nil if there is
  /// none.
  var oldestUnkept: UInt64? {
    guard location != nil, !hasComplained, let oldest = memory.first(where: { !$0.isDetail }),
      oldest.line.bytes.count <= SpoolFormat.longestLine, file?.hasRoom(for: oldest.line.bytes.count) != false
    else { return nil }
    return oldest.time
  }

  /// Puts all reports into the file, for the next process of the service.
  ///
  /// Returns whether all are there.
  func save() -> Bool {
    var isWhole = true
    for kept in memory where !kept.isDetail {
      if !put(kept) {
        isWhole = false
        didLose(Lost(serial: kept.serial, count: 1 + kept.line.droppedBefore))
      }
    }
    memory = []
    bytes = 0
    return isWhole
  }

  /// The file; nil if there is none.
  var filePath: String? { file?.path }

  /// Releases the file to the process that delivers its lines.
  func close() { file = nil }

  // MARK: Space

  private func makeRoom() {
    // Samples of a stall are worth less than that it is known.
    if let index = memory.firstIndex(where: \.isDetail) {
      bytes -= memory.remove(at: index).line.bytes.count
      return
    }
    let oldest = memory.removeFirst()
    bytes -= oldest.line.bytes.count
    if !put(oldest) { didLose(Lost(serial: oldest.serial, count: 1 + oldest.line.droppedBefore)) }
  }

  /// Adds a line to the file, and drops the oldest ones there for it.
  private func put(_ kept: Kept) -> Bool {
    guard let file = openFile(), kept.line.bytes.count <= SpoolFormat.longestLine else { return false }
    var dropped = 0
    var room = file.ringSize - file.used
    while room < SpoolFormat.recordHeadSize + kept.line.bytes.count, dropped < file.entries.count {
      let entry = file.entries[dropped]
      room += SpoolFormat.recordHeadSize + entry.length
      didLose(Lost(serial: entry.serial, count: 1 + entry.droppedBefore))
      dropped += 1
    }
    if dropped > 0 { file.removeFirst(dropped) }
    guard let code = file.append(kept.line, serial: kept.serial) else { return true }
    complain(StateDirectory.Failure(code: code).reason)
    closeIfEmpty()
    return false
  }

  private func openFile() -> SpoolFile? {
    guard let location else { return nil }
    guard !location.isTooFull else {
      complain("less than a quarter of the file system is free")
      return nil
    }
    if let file { return file }
    let limit = location.fileLimit
    let files = AbandonedFiles(directory: location.directory, prefix: location.prefix, kind: "spool", limit: limit)
    guard files.list().count < limit else {
      complain("the service already has \(limit) files")
      return nil
    }
    do {
      file = try SpoolFile(in: location.directory, prefix: location.prefix, ringSize: location.ringSize)
    } catch {
      complain(error.reason)
    }
    return file
  }

  private func closeIfEmpty() {
    guard let empty = file, empty.entries.isEmpty else { return }
    empty.remove()
    file = nil
  }

  private func complain(_ reason: String) {
    guard !hasComplained, let directory = location?.directory else { return }
    hasComplained = true
    Diagnostics.say(
      "cannot keep reports for the agent in \(directory.path): \(reason). Reports that exceed the memory limit are dropped"
    )
  }

  /// Where the first element lies whose number is at least `serial`.
  private static func index<Element>(
    of serial: UInt64, in list: [Element], _ number: (Element) -> UInt64
  ) -> Int {
    var (low, high) = (0, list.count)
    while low < high {
      let middle = (low + high) / 2
      if number(list[middle]) < serial { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
