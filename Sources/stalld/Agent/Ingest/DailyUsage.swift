import Glibc
import StallReport

/// Bytes of reports that were written today (UTC), by user and by unit: nobody fills all files with what it reports.
///
/// The limit of a user is shared by its units (``SharedAllowance``).
struct DailyUsage: Equatable {
  struct User: Equatable {
    /// Bytes of its units.
    fileprivate(set) var units = SharedAllowance<String>()
    /// Whether the log has a message that the limit is reached.
    var isReported = false

    fileprivate mutating func admit(bytes: Int, of place: String, limit: Int) -> Verdict {
      let isCounted = units.taken[place] != nil || units.taken.count < DailyUsage.unitLimit
      if units.take(bytes, for: isCounted ? place : "", limit: limit) { return .admitted }
      defer { isReported = true }
      return isReported ? .refused : .refusedForTheFirstTime
    }
  }

  enum Verdict { case admitted, refused, refusedForTheFirstTime }

  /// The number of units of a user that are counted separately; the others count as one.
  private static let unitLimit = 1000

  private(set) var users: [UInt32: User] = [:]
  /// Days since 1970.
  private(set) var day: Int
  /// Bytes that were admitted since the last ``text``.
  private(set) var unsaved = 0

  init(day: Int = DailyUsage.today) { self.day = day }

  static var today: Int { time(nil) / 86_400 }

  /// Counts a line, unless that would be too much for one day.
  mutating func admit(bytes: Int, of peer: Peer, limit: Int?, today: Int = DailyUsage.today) -> Verdict {
    if today != day { self = DailyUsage(day: today) }
    guard let limit else { return .admitted }
    let verdict = users[peer.owner, default: User()].admit(bytes: bytes, of: peer.place, limit: limit)
    if verdict == .admitted { unsaved += bytes }
    return verdict
  }

  /// Corrects what was counted of a line that has become longer by its names, or was shortened.
  mutating func correct(by bytes: Int, of owner: UInt32, _ place: String) {
    guard let known = users[owner]?.units.taken, let unit = [place, ""].first(where: { known[$0] != nil }) else {
      return
    }
    users[owner]?.units.add(bytes, for: unit)
    unsaved += max(0, bytes)
  }

  // MARK: The file

  /// A line with the day, and one for each unit: user, bytes, unit.
  mutating func text() -> String {
    unsaved = 0
    var text = "\(day)\n"
    for (owner, user) in users {
      for (unit, bytes) in user.units.taken { text += "\(owner) \(bytes) \(unit)\n" }
    }
    return text
  }

  /// What an earlier run of the agent has counted; nothing if that was on another day.
  init(text: String, today: Int = DailyUsage.today) {
    self.init(day: today)
    let lines = text.split(separator: "\n")
    guard let first = lines.first, Int(first) == today else { return }
    for line in lines.dropFirst() {
      let fields = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3, let owner = UInt32(fields[0]), let bytes = Int(fields[1]), (0...1 << 50).contains(bytes)
      else { continue }
      users[owner, default: User()].units.add(bytes, for: String(fields[2]))
    }
  }
}
