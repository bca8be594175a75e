import LoopEngine

/// Log lines about clients: at most one a minute for each subject, and few for each user.
///
/// A client must not fill the journal, not even with a new process for each connection. Nor may one user keep the messages about
/// another from being written: users share the lines of a minute (``SharedAllowance``).
struct ClientLog {
  typealias Write = (AgentLog.Priority, AgentLog.Message?, String) -> Void

  static let interval: Duration = .seconds(60)
  /// Lines of one interval about clients of all users.
  static let allowance = 100
  /// Subjects that are remembered.
  private static let limit = 1000

  private let write: Write
  private var last: [String: (time: Loop.Instant, omitted: Int)] = [:]
  private var began: Loop.Instant
  private var lines = SharedAllowance<UInt32>()
  /// Users whose next lines are omitted, after a line that announces it.
  private var contained: Set<UInt32> = []
  private var omitted = 0

  init(at now: Loop.Instant = .now, write: @escaping Write = { AgentLog.say($0, $1, $2) }) {
    (began, self.write) = (now, write)
  }

  /// Writes a line about a client of a user, unless one about the same subject was written within the last minute.
  ///
  /// `user` is nil for what is the agent's own trouble: no number of other lines keeps that from being written.
  mutating func say(
    _ priority: AgentLog.Priority = .warning, _ message: AgentLog.Message? = nil, of user: UInt32?,
    about subject: String,
    at now: Loop.Instant = .now, _ text: @autoclosure () -> String
  ) {
    if began.duration(to: now) >= Self.interval { beginInterval(at: now) }
    if let earlier = last[subject], earlier.time.duration(to: now) < Self.interval {
      last[subject] = (earlier.time, earlier.omitted + 1)
      return
    }
    guard isWithinShare(user) else { return }
    let omitted = last[subject]?.omitted ?? 0
    if last.count >= Self.limit { last = [:] }
    last[subject] = (now, 0)
    write(priority, message, text() + (omitted > 0 ? " (and \(omitted) more times since the last message)" : ""))
  }

  /// Counts a line.
  ///
  /// Returns false, and logs that once, if its user has used its share of the interval.
  private mutating func isWithinShare(_ user: UInt32?) -> Bool {
    guard let user else { return true }
    if lines.take(for: user, limit: Self.allowance) { return true }
    omitted += 1
    // A user that has written nothing yet gets no line here: so many users cannot fill the journal, either.
    if lines.taken[user] != nil, contained.insert(user).inserted {
      write(
        .warning, .clientContained,
        "too many messages about clients of user \(user): the next ones are omitted for a minute")
    }
    return false
  }

  private mutating func beginInterval(at now: Loop.Instant) {
    if omitted > 0 { write(.warning, nil, "\(omitted) messages about clients were omitted: there were too many") }
    (began, lines, contained, omitted) = (now, SharedAllowance(), [], 0)
  }
}
