/// The sources that wait to be performed, by order and then by the time of the signal.
///
/// Each knows its place here, so that none is searched for. Signals come in the order of time, so that there is seldom anything to sort.
struct SignalledSources {
  private struct Entry {
    let order: Int
    let sequence: UInt
    /// Nil once the source has left.
    var source: Loop.Source?
  }

  private var entries: [Entry] = []
  /// All before this have left.
  private var first = 0
  private var count = 0
  private var isSorted = true

  static var noIndex: Int { -1 }

  var isEmpty: Bool { count == 0 }

  /// Adds a source, unless it is here.
  mutating func insert(_ source: Loop.Source, sequence: UInt) {
    if source.signalIndex != Self.noIndex { return }
    // Those that have left must not be many times those that are here.
    if entries.count >= 64 && entries.count > 2 * count { compact() }
    if let last = entries.last, last.order > source.order { isSorted = false }
    source.signalIndex = entries.count
    entries.append(Entry(order: source.order, sequence: sequence, source: source))
    count += 1
  }

  /// Takes a source out, if it is here.
  mutating func remove(_ source: Loop.Source) {
    let index = source.signalIndex
    if index == Self.noIndex { return }
    source.signalIndex = Self.noIndex
    entries[index].source = nil
    count -= 1
    if count == 0 { removeAll() }
  }

  mutating func removeAll() {
    for entry in entries { entry.source?.signalIndex = Self.noIndex }
    // The space for a few is kept.
    entries.removeAll(keepingCapacity: entries.capacity <= 256)
    first = 0
    count = 0
    isSorted = true
  }

  /// Those that satisfy a condition, or the first of them, in their order.
  mutating func sorted(onlyFirst: Bool, where condition: (Loop.Source) -> Bool) -> [Loop.Source] {
    if !isSorted { sort() }
    while first < entries.count && entries[first].source == nil { first += 1 }
    if !onlyFirst { return entries[first...].compactMap { $0.source.flatMap { condition($0) ? $0 : nil } } }
    for entry in entries[first...] { if let source = entry.source, condition(source) { return [source] } }
    return []
  }

  private mutating func sort() {
    compact()
    entries.sort { ($0.order, $0.sequence) < ($1.order, $1.sequence) }
    notePlaces()
    isSorted = true
  }

  private mutating func compact() {
    entries.removeAll { $0.source == nil }
    first = 0
    notePlaces()
  }

  private func notePlaces() {
    for (index, entry) in entries.enumerated() { entry.source?.signalIndex = index }
  }
}
