import PlatformLibc

/// The spools of dead processes of the same service, handed over one after the other.
///
/// A file is removed when the agent has acknowledged all of it: if this process ends in between, the next one hands it over again, and the agent knows
/// what it has. Belongs to the agent's thread.
final class EarlierSpools {
  private let files: AbandonedFiles?
  // Nil until the directory has been read.
  private var names: [String]?
  private var claim: AbandonedFiles.Claim?
  private var lines: [[UInt8]] = []
  private var acknowledged = 0
  private var sent = 0

  init(directory: StateDirectory?, prefix: String) {
    files = directory.map { AbandonedFiles(directory: $0, prefix: prefix, kind: "spool", limit: Spool.fileLimit) }
  }

  deinit { close() }

  /// Gives back the file that is not handed over in full.
  func close() {
    claim?.release()
    claim = nil
  }

  /// The next line that was not sent on this connection.
  func next() -> [UInt8]? {
    while sent == lines.count {
      guard claim == nil, takeFile() else { return nil }
    }
    defer { sent += 1 }
    return lines[sent]
  }

  /// The oldest line that was sent is done with.
  func acknowledgeFirst() {
    guard acknowledged < lines.count else { return }
    acknowledged += 1
    if acknowledged == lines.count { finish() }
  }

  /// What is not acknowledged is sent again.
  func connectionEnded() { sent = acknowledged }

  private func finish() {
    if let claim { files?.remove(claim) }
    (claim, lines, acknowledged, sent) = (nil, [], 0, 0)
  }

  /// Takes one file; false if there is none left.
  private func takeFile() -> Bool {
    guard let files else { return false }
    if names == nil { names = files.list() }
    while let name = names?.popLast() {
      guard let claim = files.claim(name) else { continue }
      switch Self.content(of: claim) {
      case .lines(let lines, let isDamaged):
        if isDamaged {
          Diagnostics.say("\(files.directory.path)/\(name) is damaged: its reports for the agent are lost")
        }
        self.claim = claim
        self.lines = lines
        if lines.isEmpty { finish() }
        return true
      case .unusable(let reason):
        files.leaveAlone(name, because: reason)
        claim.release()
      }
    }
    return false
  }

  private static func content(of claim: AbandonedFiles.Claim) -> SpoolFormat.Content {
    var buffer = [UInt8](repeating: 0, count: SpoolFormat.size + 1)
    // One byte more than there may be, so that a longer file is seen to be one.
    let count = buffer.withUnsafeMutableBytes { pread(claim.descriptor, $0.baseAddress, $0.count, 0) }
    guard count >= 0 else { return .unusable(reason: StateDirectory.Failure(code: errno).reason) }
    return buffer.withUnsafeBytes { SpoolFormat.read(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
  }
}
