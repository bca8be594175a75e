/// Puts stalls into groups, and ranks these.
struct GroupingPass {
  private let grouping: Grouping
  private let texts: TextTable
  private let causes: [String]

  init(_ grouping: Grouping, texts: TextTable, causes: [String]) {
    (self.grouping, self.texts, self.causes) = (grouping, texts, causes)
  }

  /// The groups, the worst first; the stalls are given their numbers.
  func run(_ stalls: inout StallTable) -> [StallGroup] {
    var numbers: [Key: Int] = [:]
    var sizes: [Int] = []
    for row in stalls.indices {
      let key = key(of: stalls[row])
      let number = numbers[key, default: sizes.count]
      if number == sizes.count {
        numbers[key] = number
        sizes.append(0)
      }
      sizes[number] += 1
      stalls[row].group = UInt32(number)
    }
    var starts: [Int] = []
    var total = 0
    for size in sizes {
      starts.append(total)
      total += size
    }
    // Rows in the order of their groups: no array for each of what may be a million groups.
    var rows = [UInt32](repeating: 0, count: total)
    var next = starts
    for row in stalls.indices {
      let group = Int(stalls[row].group)
      rows[next[group]] = UInt32(row)
      next[group] += 1
    }
    var groups = sizes.indices.map { group in
      makeGroup(rows[starts[group]..<(starts[group] + sizes[group])], of: stalls)
    }
    let order = groups.indices.sorted {
      (groups[$1].rank, groups[$1].milliseconds, groups[$0].key, $0)
        < (groups[$0].rank, groups[$0].milliseconds, groups[$1].key, $1)
    }
    var places = [UInt32](repeating: 0, count: order.count)
    for (place, number) in order.enumerated() { places[number] = UInt32(place) }
    for row in stalls.indices { stalls[row].group = places[Int(stalls[row].group)] }
    groups = order.map { groups[$0] }
    return groups
  }

  /// Two numbers of texts: a release is a service's.
  private struct Key: Hashable {
    var first: UInt32
    var second: UInt32 = 0
  }

  private func key(of stall: Stall) -> Key {
    switch grouping {
    case .culprit: Key(first: stall.culprit)
    case .fingerprint: Key(first: stall.fingerprint)
    case .cause: Key(first: UInt32(stall.cause))
    case .service: Key(first: stall.service)
    case .host: Key(first: stall.host)
    case .release: Key(first: stall.service, second: stall.release)
    }
  }

  private func name(of stall: Stall) -> String {
    switch grouping {
    case .culprit: texts[stall.culprit]
    case .fingerprint: texts[stall.fingerprint]
    case .cause: causes[Int(stall.cause)]
    case .service: texts[stall.service]
    case .host: texts[stall.host]
    case .release: stall.release == 0 ? "" : "\(texts[stall.service]) \(texts[stall.release])"
    }
  }

  private func makeGroup(_ rows: ArraySlice<UInt32>, of stalls: StallTable) -> StallGroup {
    var group = StallGroup(key: rows.first.map { name(of: stalls[Int($0)]) } ?? "", culprit: "", cause: "")
    var hosts: Set<UInt32> = []
    var durations: [Double] = []
    var pairs: [Pair: Double] = [:]
    for row in rows {
      let stall = stalls[Int(row)]
      group.count += Int(stall.count)
      group.milliseconds += stall.milliseconds
      group.longest = max(group.longest, stall.longest)
      group.first = min(group.first, stall.start)
      group.last = max(group.last, stall.isSummary ? stall.start : stall.end)
      hosts.insert(stall.host)
      if stall.isSummary { group.suppressed += Int(stall.count) } else { durations.append(stall.milliseconds) }
      if stall.state == .fatal { group.fatal += 1 }
      pairs[Pair(of: stall), default: 0] += stall.milliseconds
    }
    durations.sort()
    group.hosts = max(1, hosts.count)
    group.percentiles = StallGroup.Percentiles(ofSorted: durations)
    guard let pair = heaviest(pairs) else { return group }
    (group.culprit, group.cause) = (texts[pair.culprit], causes[Int(pair.cause)])
    var stacks: [UInt32: Double] = [:]
    for row in rows where stalls[Int(row)].stack != Stall.noStack && Pair(of: stalls[Int(row)]) == pair {
      stacks[stalls[Int(row)].stack, default: 0] += stalls[Int(row)].milliseconds
    }
    group.stack = stacks.max { ($0.value, $1.key) < ($1.value, $0.key) }.map { Int($0.key) }
    return group
  }

  /// What a row shows as one: the function that stalls, and why it does.
  private struct Pair: Hashable {
    var culprit: UInt32
    var cause: UInt8

    init(of stall: Stall) { (culprit, cause) = (stall.culprit, stall.cause) }
  }

  private func heaviest(_ pairs: [Pair: Double]) -> Pair? {
    pairs.max { one, other in
      guard one.value == other.value else { return one.value < other.value }
      return (texts[other.key.culprit], other.key.cause) < (texts[one.key.culprit], one.key.cause)
    }?.key
  }
}
