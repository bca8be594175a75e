/// What one row's measurements gave, round by round.
import BenchmarkSupport

struct Samples {
  private var rounds: [[String: Double]] = []

  /// Interleaved, so that whatever disturbs the machine disturbs all; in another order each time, and each in a process of
  /// its own: what one leaves behind in the heap and in the caches is the next one's loss or gain.
  mutating func addRound(of row: Row, _ subjects: [String]) throws {
    var round: [String: Double] = [:]
    for subject in subjects.shuffled() { round[subject] = try measureApart(row.name, subject) }
    rounds.append(round)
  }

  func median(of subject: String) -> Double? { rounds.compactMap { $0[subject] }.interpolatedMedian }

  /// The median of the rounds' ratios and not the ratio of the medians: on a machine that has slow minutes, the two of a
  /// round share them.
  func ratio(of subject: String, to reference: String) -> Double? {
    rounds.compactMap { round in round[subject].flatMap { value in round[reference].map { value / $0 } } }
      .interpolatedMedian
  }
}
