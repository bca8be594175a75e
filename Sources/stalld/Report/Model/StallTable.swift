/// All stalls, each once.
///
/// Rows lie in pages, so that growing neither copies nor doubles what is there.
struct StallTable: RandomAccessCollection {
  private static let pageSize = 1 << 14

  private var pages: [[Stall]] = []
  private var index = HashIndex()
  private(set) var count = 0

  var startIndex: Int { 0 }
  var endIndex: Int { count }

  subscript(_ row: Int) -> Stall {
    get { pages[row / Self.pageSize][row % Self.pageSize] }
    set { pages[row / Self.pageSize][row % Self.pageSize] = newValue }
  }

  /// Adds what one line says, to the stall's row if there is one.
  ///
  /// The same summary twice is one.
  mutating func add(_ stall: Stall) {
    let hash = Self.hash(stall)
    let known = index.find(hash) { row in
      let old = self[Int(row)]
      return old.idHigh == stall.idHigh && old.idLow == stall.idLow && old.isSummary == stall.isSummary
        && (!stall.isSummary || old.sequence == stall.sequence)
    }
    if let known {
      pages[Int(known) / Self.pageSize][Int(known) % Self.pageSize].merge(stall)
    } else {
      index.insert(UInt32(count), hash)
      append(stall)
    }
  }

  /// Removes all rows, in pieces that are released one after the other.
  mutating func drain(_ body: (Stall) -> Void) {
    index = HashIndex()
    count = 0
    while let page = pages.popLast() { page.forEach(body) }
  }

  /// The rows that are to stay, in a table that finds none by its id any more.
  mutating func keep(where isKept: (Stall) -> Bool) {
    var kept = StallTable()
    pages.reverse()
    index = HashIndex()
    while let page = pages.popLast() { for stall in page where isKept(stall) { kept.append(stall) } }
    self = kept
  }

  private mutating func append(_ stall: Stall) {
    if count % Self.pageSize == 0 {
      pages.append([])
      pages[pages.count - 1].reserveCapacity(Self.pageSize)
    }
    pages[pages.count - 1].append(stall)
    count += 1
  }

  private static func hash(_ stall: Stall) -> UInt64 {
    WordHash.hash(stall.idHigh, stall.isSummary ? stall.idLow &+ UInt64(stall.sequence) &+ 1 : stall.idLow)
  }
}
