/// The lines that the outputs have not finished yet, in the order in which they were given to them.
struct PendingLines {
  private var lines: [PendingLine] = []
  private var first = 0

  var count: Int { lines.count - first }

  mutating func append(_ more: [PendingLine]) { lines += more }

  /// Takes out that many lines that have been written, and what only kept its place up to the next one that has not.
  mutating func take(lines count: Int) -> [PendingLine] {
    var left = count
    var end = first
    while end < lines.count {
      if lines[end].line != nil {
        guard left > 0 else { break }
        left -= 1
      }
      end += 1
    }
    let taken = Array(lines[first..<end])
    first = end
    if first == lines.count {
      lines.removeAll(keepingCapacity: first <= 4096)
      first = 0
    } else if first > 1024, first * 2 > lines.count {
      lines.removeFirst(first)
      first = 0
    }
    return taken
  }
}
