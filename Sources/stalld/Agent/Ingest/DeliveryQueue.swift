/// The lines that are on their way to the outputs, in order, and whose they are.
struct DeliveryQueue {
  private struct Entry {
    var connection: Connection?
    var line: UInt64
    /// Nil if nothing is written for it: it only keeps its place.
    var bytes: Int?
  }

  private var entries: [Entry] = []
  private var first = 0
  /// Of all lines in it.
  private(set) var bytes = 0

  var isEmpty: Bool { first == entries.count }

  mutating func append(_ connection: Connection?, line: UInt64, bytes: Int?) {
    entries.append(Entry(connection: connection, line: line, bytes: bytes))
    self.bytes += bytes ?? 0
  }

  /// Takes out that many lines that have been written, and what only kept its place up to the next one that has not.
  mutating func finish(lines: Int, _ body: (Connection?, UInt64, Int) -> Void) {
    var left = lines
    while first < entries.count {
      let entry = entries[first]
      if let size = entry.bytes {
        guard left > 0 else { break }
        left -= 1
        bytes -= size
      }
      entries[first].connection = nil
      first += 1
      body(entry.connection, entry.line, entry.bytes ?? 0)
    }
    if first > 1024, first * 2 > entries.count {
      entries.removeFirst(first)
      first = 0
    } else if first == entries.count {
      entries.removeAll(keepingCapacity: first <= 4096)
      first = 0
    }
  }
}
