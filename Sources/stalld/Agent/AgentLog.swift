import Glibc
import Synchronization

/// The agent's own words, on standard error: one line each, with its priority if the journal reads it.
enum AgentLog {
  enum Priority: Int { case error = 3, warning = 4, notice = 5, info = 6 }

  // sd-daemon(3): only what goes to the journal is prefixed.
  private static let isJournal = getenv("JOURNAL_STREAM") != nil

  /// Says one line.
  ///
  /// From any thread; what strangers wrote must be made printable before.
  static func say(_ priority: Priority, _ text: String) {
    let prefix = isJournal ? "<\(priority.rawValue)>" : "stalld: "
    let line = Array("\(prefix)\(text)\n".utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}

extension String {
  /// A stranger's text, fit for a log: on one line, and not long.
  var printable: String {
    String(unicodeScalars.prefix(200).map { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) ? "?" : Character($0) })
  }
}
