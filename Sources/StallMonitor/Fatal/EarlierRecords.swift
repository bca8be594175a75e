import PlatformLibc

/// Takes lines, and says when all of them have been taken.
protocol RecordOutput: AnyObject {
  /// Whether all lines have been taken.
  ///
  /// If not, the watchdog is woken when they have been.
  var isSettled: Bool { get }

  /// Takes a line.
  func write(_ bytes: [UInt8])
}

/// What processes of the same service left that ended in a stall.
///
/// A record is sent first and removed afterwards: if this process ends in between, the next one sends it again, with the same `stall.id`.
/// Its lock, held from reading to removal, prevents two processes that start at once from sending it twice.
final class EarlierRecords {
  static let recordLimit = 64

  private let files: AbandonedFiles
  // Nil until the directory has been read.
  private var names: [String]?
  private var sent: AbandonedFiles.Claim?

  init(directory: StateDirectory, prefix: String) {
    files = AbandonedFiles(directory: directory, prefix: prefix, kind: "stall record", limit: Self.recordLimit)
  }

  /// Whether so many wait to be sent that there should not be more.
  var isFull: Bool { (names?.count ?? 0) >= Self.recordLimit }

  deinit { sent?.release() }

  /// Sends records for as long as the sink is rid of each.
  func send(to sink: any RecordOutput) {
    guard names?.isEmpty != true || sent != nil else { return }
    if names == nil { names = files.list() }
    while sink.isSettled {
      if let sent { files.remove(sent) }
      sent = nil
      guard let name = names?.popLast() else { return }
      guard let claim = files.claim(name) else { continue }
      switch content(of: claim) {
      case .fatal(let line):
        sink.write(line)
        sent = claim
      case .over: files.remove(claim)
      case .unusable(let reason):
        files.leaveAlone(name, because: reason)
        claim.release()
      }
    }
  }

  /// The sink is closed: removes the record that was sent last if the sink is rid of it; the others stay for the next start.
  func finish(_ sink: any RecordOutput) {
    names = []
    guard let sent, sink.isSettled else { return }
    files.remove(sent)
    self.sent = nil
  }

  private func content(of claim: AbandonedFiles.Claim) -> StallRecord.Content {
    withUnsafeTemporaryAllocation(byteCount: StallRecord.size + 1, alignment: 8) { buffer in
      // One byte more than there should be, so that a longer file is seen to be one.
      let count = pread(claim.descriptor, buffer.baseAddress, buffer.count, 0)
      guard count >= 0 else { return .unusable(reason: StateDirectory.Failure(code: errno).reason) }
      return StallRecord.read(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }
  }
}
