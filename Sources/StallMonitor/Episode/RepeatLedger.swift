import StallReport

/// Remembers which stalls have been reported, so that the same stall is reported once and then counted.
///
/// A stall whose functions were reported less than a window ago is not reported again; at the end
/// of the window one `stall.suppressed` says how many there were and how long they took. The window
/// doubles while repetitions continue. A window without a repetition ends the series. Beside that,
/// no more than a budget of stalls a minute is reported in full, and of one loop no more than
/// ``unnamedPerMinute`` whose frames the agent names: without names, few stalls are known to be the same.
/// Belongs to the thread that names.
final class RepeatLedger {
  /// Whether a stall is reported.
  enum Answer: Equatable {
    case report
    case count
  }

  private struct Entry {
    var began: UInt64
    var window: UInt64
    /// The longest reported duration.
    ///
    /// A repetition that is more than twice as long is reported.
    var longestReported: UInt64
    /// The stall that was reported; nil where the budget forbade it.
    var reportedID: String?
    /// The fingerprint that was reported.
    ///
    /// The samples of a repetition may give another one.
    var reportedFingerprint: String?
    var reportedPlaces: UnnamedCallTree?
    var tally = SuppressedStalls()
    /// What the summary is made of.
    var template: Report?

    var end: UInt64 { began + window }
  }

  /// How many stalls of one loop may leave without names a minute.
  private static let unnamedPerMinute: UInt64 = 10
  private static let longestWindow: UInt64 = 3_600_000_000_000
  private static let entryLimit = 256
  private static let minute: UInt64 = 60_000_000_000
  /// The key of stalls that the budget left no space for.
  private static let overBudget = ""

  private var firstWindow: UInt64
  private var entries: [String: Entry] = [:]
  private var budget: Budget
  /// What each loop may still send without names.
  private var loops: [String: Budget] = [:]

  /// A token bucket, in nanoseconds of the minute that it is for.
  private struct Budget {
    /// 0 is no limit.
    var perMinute: UInt64
    private var credit = RepeatLedger.minute
    private var time: UInt64

    init(perMinute: UInt64, now: UInt64) { (self.perMinute, time) = (perMinute, now) }

    mutating func spend(at now: UInt64) -> Bool {
      guard perMinute > 0 else { return true }
      credit = min(RepeatLedger.minute, credit + (now - time))
      time = now
      let price = RepeatLedger.minute / perMinute
      guard credit >= price else { return false }
      credit -= price
      return true
    }
  }

  /// - Parameters:
  ///   - window: The first window, in nanoseconds; 0 reports every stall.
  ///   - budget: How many stalls are reported in full per minute, on average; 0 is no limit.
  ///   - now: The time.
  init(window: UInt64, budget: Int, now: UInt64) {
    firstWindow = window
    self.budget = Budget(perMinute: UInt64(max(0, budget)), now: now)
  }

  /// Changes the window and the budget, from the next stall on.
  ///
  /// What is counted keeps its window, unless every stall is to be reported.
  func retune(window: UInt64, budget: Int) {
    firstWindow = window
    self.budget.perMinute = UInt64(max(0, budget))
    for (key, entry) in entries where window == 0 || entry.tally.count == 0 {
      entries[key]?.window = min(entry.window, window)
    }
  }

  /// Decides about a stall that begins.
  func begin(_ report: Report, at now: UInt64) -> Answer {
    if isRepetition(report, at: now) { return .count }
    return spend(on: report, at: now) ? .report : .count
  }

  /// Whether a stall that was not reported so far has become worth a report of its own: it lasts more than a second, and twice as long as
  /// any that was reported.
  func promotes(_ report: Report, at now: UInt64) -> Bool {
    guard let key = Self.key(of: report), let entry = entries[key] else { return spend(on: report, at: now) }
    return report.durationNanoseconds > 1_000_000_000 && report.durationNanoseconds / 2 > entry.longestReported
      && spend(on: report, at: now)
  }

  /// Notes the end of a stall that was reported.
  func didReport(_ report: Report, at now: UInt64) {
    guard firstWindow > 0, let key = Self.key(of: report) else { return }
    if var entry = entries[key], entry.end > now || entry.tally.count > 0 {
      entry.longestReported = max(entry.longestReported, report.durationNanoseconds)
      entries[key] = entry
    } else {
      makeRoom(at: now)
      entries[key] = Entry(
        began: now, window: firstWindow, longestReported: report.durationNanoseconds, reportedID: report.stallID,
        reportedFingerprint: report.fingerprint,
        // Samples of a blocked stall would make the summary look like one on CPU.
        reportedPlaces: report.verdict.evidence.state == "running" ? report.places : nil)
    }
  }

  /// Notes the end of a stall that was not reported.
  func didCount(_ report: Report, at now: UInt64) {
    let key = Self.key(of: report).flatMap { entries[$0] == nil ? nil : $0 } ?? Self.overBudget
    count(
      SuppressedStalls(count: 1, total: report.durationNanoseconds, longest: report.durationNanoseconds), like: report,
      as: key, at: now)
  }

  /// Notes stalls of a loop of which nothing is known but how long they lasted together; `report` is one of that loop's.
  func didLose(_ number: UInt64, lasting total: UInt64, like report: Report, at now: UInt64) {
    // The longest is at least as long as their mean.
    count(
      SuppressedStalls(count: number, total: total, longest: total / max(number, 1)), like: report, as: Self.overBudget,
      at: now)
  }

  private func count(_ stalls: SuppressedStalls, like report: Report, as key: String, at now: UInt64) {
    var entry = entries[key] ?? Entry(began: now, window: max(firstWindow, Self.minute), longestReported: 0)
    entry.tally.count += stalls.count
    entry.tally.total += stalls.total
    entry.tally.longest = max(entry.tally.longest, stalls.longest)
    entry.template = report
    entries[key] = entry
  }

  /// When the next summary is due; nil if nothing has been counted.
  var nextSummary: UInt64? { entries.values.lazy.filter { $0.tally.count > 0 }.map(\.end).min() }

  /// The summaries that are due, oldest first.
  ///
  /// `closing` takes all, because the watch ends.
  func summaries(at now: UInt64, closing: Bool = false) -> [Report] {
    let due = entries.filter { $0.value.tally.count > 0 && ($0.value.end <= now || closing) }
    var reports: [(began: UInt64, report: Report)] = []
    for (key, entry) in due {
      guard var report = entry.template else { continue }
      var tally = entry.tally
      tally.window = now - entry.began
      tally.isOverBudget = key == Self.overBudget
      if let id = entry.reportedID {
        report.stallID = id
        report.fingerprint = entry.reportedFingerprint ?? report.fingerprint
        report.places = entry.reportedPlaces
      }
      reports.append((entry.began, report.summary(of: tally, at: .now())))
      entries[key] =
        tally.isOverBudget
        ? nil
        : Entry(
          began: now, window: min(2 * entry.window, Self.longestWindow), longestReported: entry.longestReported,
          reportedID: entry.reportedID, reportedFingerprint: entry.reportedFingerprint,
          reportedPlaces: entry.reportedPlaces)
    }
    return reports.sorted { $0.began < $1.began }.map(\.report)
  }

  // MARK: Inside

  private func isRepetition(_ report: Report, at now: UInt64) -> Bool {
    guard let key = Self.key(of: report), let entry = entries[key] else { return false }
    if entry.end > now || entry.tally.count > 0 { return true }
    entries[key] = nil
    return false
  }

  private func spend(on report: Report, at now: UInt64) -> Bool {
    guard report.isNamed || budget.perMinute == 0 else { return spendWithoutNames(of: report.loop.name, at: now) }
    return budget.spend(at: now)
  }

  private func spendWithoutNames(of loop: String, at now: UInt64) -> Bool {
    if loops[loop] == nil, loops.count >= Self.entryLimit { loops = [:] }
    return loops[loop, default: Budget(perMinute: Self.unnamedPerMinute, now: now)].spend(at: now)
      && budget.spend(at: now)
  }

  private func makeRoom(at now: UInt64) {
    guard entries.count >= Self.entryLimit else { return }
    entries = entries.filter { $0.value.end > now || $0.value.tally.count > 0 }
    guard entries.count >= Self.entryLimit else { return }
    // Nothing counted is lost: only what has been reported, and might be reported once more.
    let oldest = entries.filter { $0.value.tally.count == 0 }.min { $0.value.began < $1.value.began }
    if let oldest { entries[oldest.key] = nil }
  }

  /// What makes two stalls the same: the loop, its callout, and the service's own functions on the stack.
  ///
  /// Without any of them, the loop and the cause; if a name on the stack was not found in time, the loop and the fingerprint. Nil of a
  /// stall that was not sampled, which is like no other.
  private static func key(of report: Report) -> String? {
    if report.captureFailure == .turnEnded { return nil }
    return
      "\(report.loop.name) \(report.loop.callout ?? "") \(report.repeatKey ?? report.fingerprint ?? report.verdict.cause.rawValue)"
  }
}
