/// Lines that wait for one output, first in, first out.
struct LineQueue {
  // Those before `head` are gone already; moving the others up for each would be slow in a long queue.
  private var lines: [ReportLine] = []
  private var head = 0
  /// The bytes of all lines.
  private(set) var bytes = 0

  var count: Int { lines.count - head }
  var isEmpty: Bool { head == lines.count }
  var first: ReportLine? { isEmpty ? nil : lines[head] }
  /// All lines, oldest first.
  var all: ArraySlice<ReportLine> { lines[head...] }

  mutating func append(_ line: ReportLine) {
    lines.append(line)
    bytes += line.bytes.count
  }

  mutating func removeFirst() {
    bytes -= lines[head].bytes.count
    lines[head].bytes = []
    head += 1
    if head == lines.count {
      lines.removeAll(keepingCapacity: head < 1024)
      head = 0
    } else if head >= 1024 && head * 2 > lines.count {
      lines.removeFirst(head)
      head = 0
    }
  }

  /// Removes the oldest line, or the one after it if the oldest must stay; false if there is none.
  mutating func dropOldest(sparingFirst: Bool) -> Bool {
    guard count > (sparingFirst ? 1 : 0) else { return false }
    if sparingFirst { lines.swapAt(head, head + 1) }
    removeFirst()
    return true
  }
}
