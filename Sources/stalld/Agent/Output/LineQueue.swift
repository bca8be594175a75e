/// Lines that wait for one output, first in, first out.
struct LineQueue {
  // Those before `head` are gone already; moving the others up for each would be slow in a long queue.
  private var lines: [ReportLine] = []
  private var head = 0
  /// The bytes of all lines.
  private(set) var bytes = 0

  var count: Int { lines.count - head }
  var isEmpty: Bool { head == lines.count }
  /// All lines, oldest first.
  var all: ArraySlice<ReportLine> { lines[head...] }

  /// A copy of the oldest lines: at most so many, and so many bytes; at least one if there is any.
  func first(_ limit: Int, bytes limitOfBytes: Int) -> [ReportLine] {
    var bytes = 0
    var end = head
    while end < lines.count, end - head < limit {
      bytes += lines[end].bytes.count
      if bytes > limitOfBytes && end > head { break }
      end += 1
    }
    return Array(lines[head..<end])
  }

  mutating func append(_ line: ReportLine) {
    lines.append(line)
    bytes += line.bytes.count
  }

  mutating func removeFirst(_ number: Int = 1) {
    for _ in 0..<number {
      bytes -= lines[head].bytes.count
      lines[head] = .none
      head += 1
    }
    if head == lines.count {
      lines.removeAll(keepingCapacity: head < 1024)
      head = 0
    } else if head >= 1024 && head * 2 > lines.count {
      lines.removeFirst(head)
      head = 0
    }
  }

  /// Removes the oldest line but for the first ones, which must stay; false if there is none.
  mutating func dropOldest(sparing first: Int) -> Bool {
    guard count > first else { return false }
    for position in stride(from: head + first, to: head, by: -1) { lines.swapAt(position, position - 1) }
    removeFirst()
    return true
  }
}
