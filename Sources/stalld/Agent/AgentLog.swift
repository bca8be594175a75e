import DescriptorIO
import Glibc
import StallMonitor
import StallReport

/// The agent's own words: to the journal with what its catalogue explains them by, or to standard error.
enum AgentLog {
  enum Priority: Int {
    /// An error that does not end before the agent is restarted.
    case critical = 2
    case error = 3
    case warning = 4
    case notice = 5
    case info = 6
  }

  /// A kind of message that `systemd/catalog/stalld.catalog` explains.
  enum Message: String, CaseIterable {
    case outputFailed = "1dbf9c5a13854f8bad057775a00b4c13"
    case connectionRefused = "732b30a4cdb645ebbd8c3e5439a5b3c5"
    case clientContained = "1b141093cad64a4aac80ec572012b082"
    case reloadFailed = "35c8262d244b422d853e1676295635b0"
    case hostEnded = "03cd1d0ece2d40e4ace528b717200e1b"
  }

  // systemd.exec(5): standard error is connected to the journal.
  private static let isJournal = getenv("JOURNAL_STREAM") != nil
  // systemd's Journal native protocol: a datagram of NAME=value lines.
  private static let journal = UnixDatagramSocket(address: "/run/systemd/journal/socket")

  // The agent's loop must not wait for a pager, or for a journald that hangs.
  private static let standardError = LogStream(STDERR_FILENO)

  /// Says one line.
  static func say(_ priority: Priority, _ text: String) { say(priority, nil, text) }

  /// Says one line about an output; the catalogue explains its errors.
  @Sendable static func sayOfOutput(_ priority: Priority, _ text: String) {
    say(priority, priority.rawValue <= Priority.error.rawValue ? .outputFailed : nil, text)
  }

  /// Says one line that the catalogue explains.
  ///
  /// From any thread; what other users wrote must be made printable before.
  static func say(_ priority: Priority, _ message: Message?, _ text: String) {
    if isJournal, let message, let journal {
      let fields =
        "MESSAGE=\(text)\nMESSAGE_ID=\(message.rawValue)\nPRIORITY=\(priority.rawValue)\nSYSLOG_IDENTIFIER=stalld\n"
      if journal.send(fields) == nil { return }
    }
    func line(_ priority: Priority, _ text: String) -> String {
      (isJournal ? "<\(priority.rawValue)>" : "stalld: ") + text + "\n"
    }
    let outcome = standardError.write(line(priority, text)) { count in
      line(
        .warning,
        "\(count) \(count == 1 ? "message was" : "messages were") omitted: standard error was not accepting writes")
    }
    // A stream to journald does not outlive its sockets.
    if outcome == .failed, isJournal, let journal {
      _ = journal.send("MESSAGE=\(text)\nPRIORITY=\(priority.rawValue)\nSYSLOG_IDENTIFIER=stalld\n")
    }
  }
}

extension String {
  /// Another user's text, fit for a log: on one line, and not long.
  var forLog: String { String(prefix(200)).printable }
}
