import Glibc
import StallReport

/// What a page shows of a summary, bounded however many stalls there are: all up to some thousands; beyond, the longest one by one and all of
/// them as sums.
struct PageModel {
  /// Stalls that are reported one by one.
  static let markLimit = 4000
  private static let groupLimit = 500
  private static let weightLimit = 8000
  private static let bins = 600

  /// A row of the page's JSON, its values in the order of the positions in model.js.
  ///
  /// None has a default: a value that ``PageModel`` does not set would be 0 in each row.
  struct Row {
    var start: Double
    var milliseconds: Double
    var cause: Int
    var group: Int
    var service: Int
    var host: Int
    var stack: Int
    var state: Int
    var count: Int
    var id: String
    var loop: Int

    func write(into json: inout JSONWriter) {
      json.array { json in
        json.value(start)
        json.value(milliseconds)
        for number in [cause, group, service, host, stack, state, count] { json.value(number) }
        json.value(id)
        json.value(loop)
      }
    }
  }

  struct Weight: Hashable {
    var stack: Int
    var group: Int
    var cause: UInt8
  }

  struct Sum {
    var milliseconds = 0.0
    var count = 0
  }

  struct Cell: Hashable {
    var bin: Int
    var cause: UInt8
  }

  let summary: ReportSummary
  private(set) var texts = PageTexts()
  private(set) var stacks = PageStacks()
  /// Whether each stall has a row.
  private(set) var isComplete = true
  private(set) var rows: [Row] = []
  private(set) var groups: [(group: StallGroup, stack: Int)] = []
  private(set) var weights: [(Weight, Sum)] = []
  /// Of the time from the first stall to the last; empty if ``isComplete``.
  private(set) var bins: [Cell: Sum] = [:]
  /// By powers of 10^(1/8) milliseconds; empty if ``isComplete``.
  private(set) var histogram: [Cell: Int] = [:]
  private(set) var trees: [(id: String, nodes: [(parent: Int, frame: Int, milliseconds: Double, origin: Int)])] = []

  // Totals.
  private(set) var first = Double.infinity
  private(set) var last = -Double.infinity
  private(set) var total = Sum()
  private(set) var suppressed = 0
  private(set) var fatal = 0
  private(set) var longest = 0.0
  private(set) var services = 0
  private(set) var hosts = 0
  private(set) var percentiles: StallGroup.Percentiles?

  var binWidth: Double { max(last - first, 1e-3) / Double(Self.bins) }

  init(_ summary: ReportSummary, details: DetailTrees? = nil) {
    self.summary = summary
    let shortest = count()
    isComplete = summary.stalls.count <= Self.markLimit
    let culprits = self.culprits()
    for (number, stack) in summary.stacks.enumerated() {
      stacks.add(stack, culprit: summary.text(culprits[number]), summary, &texts)
    }
    for group in summary.groups.prefix(Self.groupLimit) {
      groups.append((group, group.stack.map { stacks.number(of: summary.stacks[$0]) } ?? PageStacks.none))
    }
    var sums: [Weight: Sum] = [:]
    for stall in summary.stalls {
      let weight = Weight(stack: stack(of: stall), group: group(of: stall), cause: stall.cause)
      sums[weight, default: Sum()].add(stall)
      if isComplete || (!stall.isSummary && stall.milliseconds >= shortest && rows.count < Self.markLimit) {
        add(stall)
      }
      guard !isComplete else { continue }
      let bin = min(Self.bins - 1, max(0, Int((stall.start - first) / binWidth)))
      bins[Cell(bin: bin, cause: stall.cause), default: Sum()].add(stall)
      if !stall.isSummary {
        histogram[
          Cell(bin: Int(floor(log10(max(stall.milliseconds, 1)) * 8 + 1e-9)), cause: stall.cause), default: 0] += 1
      }
    }
    weigh(sums)
    if let details { add(details) }
  }

  /// The totals; returns from which duration on a stall is among the longest.
  private mutating func count() -> Double {
    var durations: [Double] = []
    durations.reserveCapacity(summary.stalls.count)
    var (serviceNumbers, hostNumbers) = (Set<UInt32>(), Set<UInt32>())
    for stall in summary.stalls {
      first = min(first, stall.start)
      last = max(last, stall.end)
      total.add(stall)
      if stall.isSummary { suppressed += Int(stall.count) } else { durations.append(stall.milliseconds) }
      if stall.state == .fatal { fatal += 1 }
      longest = max(longest, stall.longest)
      serviceNumbers.insert(stall.service)
      hostNumbers.insert(stall.host)
    }
    (services, hosts) = (serviceNumbers.count, hostNumbers.count)
    if summary.stalls.isEmpty { (first, last) = (0, 0) }
    durations.sort()
    percentiles = StallGroup.Percentiles(ofSorted: durations)
    return durations.isEmpty ? 0 : durations[max(0, durations.count - Self.markLimit)]
  }

  /// The responsible function of each stack, as one of its stalls has it.
  private func culprits() -> [UInt32] {
    var culprits = [UInt32](repeating: 0, count: summary.stacks.count)
    for stall in summary.stalls where stall.stack != Stall.noStack && stall.culprit != 0 {
      culprits[Int(stall.stack)] = stall.culprit
    }
    return culprits
  }

  private func stack(of stall: Stall) -> Int {
    stall.stack == Stall.noStack ? PageStacks.none : stacks.number(of: summary.stacks[Int(stall.stack)])
  }

  private func group(of stall: Stall) -> Int { Int(stall.group) < groups.count ? Int(stall.group) : -1 }

  private mutating func add(_ stall: Stall) {
    rows.append(
      Row(
        start: stall.start - first, milliseconds: stall.milliseconds, cause: Int(stall.cause), group: group(of: stall),
        service: texts.number(of: stall.service, in: summary), host: texts.number(of: stall.host, in: summary),
        stack: stack(of: stall), state: Int(stall.state.rawValue), count: Int(stall.count), id: stall.id,
        loop: texts.number(of: stall.loop, in: summary)))
  }

  /// The heaviest weights; what is beyond is summed up, so that nothing is missing from the totals.
  private mutating func weigh(_ sums: [Weight: Sum]) {
    let sorted = sums.sorted {
      ($1.value.milliseconds, $0.key.stack, $0.key.group, $0.key.cause) < (
        $0.value.milliseconds, $1.key.stack, $1.key.group, $1.key.cause
      )
    }
    weights = sorted.prefix(Self.weightLimit).map { ($0.key, $0.value) }
    var rest: [Weight: Sum] = [:]
    for (weight, sum) in sorted.dropFirst(Self.weightLimit) {
      rest[Weight(stack: PageStacks.others, group: weight.group, cause: weight.cause), default: Sum()].add(sum)
    }
    weights += rest.map { ($0.key, $0.value) }
  }

  private mutating func add(_ details: DetailTrees) {
    for row in rows.sorted(by: { $0.milliseconds > $1.milliseconds })
    where row.state != Int(Stall.State.summary.rawValue) {
      guard !details.isFull, !texts.isFull else { return }
      guard let nodes = details.tree(of: row.id) else { continue }
      trees.append(
        (
          row.id,
          zip(nodes, DetailTrees.origins(of: nodes)).map { node, origin in
            let frame = stacks.add(
              name: node.name, symbol: node.symbol, file: node.file, line: node.line, module: node.module,
              isInlined: node.isInlined, isAsync: node.isAsync, &texts)
            return (node.parent, frame, node.milliseconds, texts.number(of: origin))
          }
        ))
    }
  }
}

extension PageModel.Sum {
  fileprivate mutating func add(_ stall: Stall) {
    milliseconds += stall.milliseconds
    count += Int(stall.count)
  }

  fileprivate mutating func add(_ other: Self) {
    milliseconds += other.milliseconds
    count += other.count
  }
}
