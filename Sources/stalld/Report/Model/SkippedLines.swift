/// Lines that are no reports: counted, and the first of them named.
struct SkippedLines {
  struct Line {
    var file: String
    /// The file's place among those that were read.
    var fileIndex: Int
    /// From 1.
    var number: Int
    var reason: String
  }

  static let namedLimit = 10

  private(set) var count = 0
  private var candidates: [Line] = []

  /// The first ``namedLimit``, in the order of files and lines.
  var named: [Line] { Array(sorted.prefix(Self.namedLimit)) }

  mutating func add(_ line: Line) {
    count += 1
    // Threads read in turns: what is first is known at the end.
    candidates.append(line)
    if candidates.count > 8 * Self.namedLimit { candidates = named }
  }

  mutating func add(_ other: SkippedLines) {
    count += other.count
    candidates += other.candidates
  }

  private var sorted: [Line] { candidates.sorted { ($0.fileIndex, $0.number) < ($1.fileIndex, $1.number) } }
}
