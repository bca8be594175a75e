import DescriptorIO
import Glibc
import StallCapture

/// Standard output: a pipe, a terminal, a file, or the journal's socket; its reader is never waited for.
///
/// For the journal each line has its priority in front, as sd-daemon(3) says. When journald has closed its end, a new stream is
/// opened to it.
final class DescriptorDestination: SingleLineDestination {
  let name: String
  private let original: Int32
  private let isJournal: Bool
  private let journalSocket: String
  private var output: LineDescriptor?

  init(
    _ original: Int32, name: String, journalStream: String? = getenv("JOURNAL_STREAM").map { String(cString: $0) },
    journalSocket: String = JournalStream.path
  ) {
    self.original = original
    self.name = name
    self.journalSocket = journalSocket
    isJournal = journalStream != nil && FileIdentity(original)?.journalStream == journalStream
  }

  func open() throws(OutputError) {
    output = LineDescriptor(sharing: original, isExclusive: true)
    if output == nil { throw OutputError(name, code: errno) }
  }

  func close() { output = nil }

  /// What lines are written to, opened again if it is the journal's; nil, with errno, if there is none.
  private func currentOutput() -> LineDescriptor? {
    if let output { return output }
    guard isJournal else {
      errno = EBADF
      return nil
    }
    output = LineDescriptor(owning: JournalStream.connect(at: journalSocket))
    return output
  }

  func send(_ line: ReportLine) -> SendResult {
    guard let output = currentOutput() else { return .failed(errno) }
    switch output.write(isJournal ? Array((line.isError ? "<3>" : "<4>").utf8) + line.bytes : line.bytes) {
    case .written: return .sent
    case .full: return .waits(output.number)
    case .failed(let code):
      // On a new stream the whole line comes again.
      if isJournal && output.isSocket { close() }
      return .failed(code)
    }
  }
}
