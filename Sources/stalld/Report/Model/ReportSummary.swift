import StallReport

/// All that one pass over report lines leaves behind.
///
/// Its memory grows with the number of stalls (90 bytes each), of groups and of distinct names, and not with the lines.
final class ReportSummary {
  /// By what ``groups`` are made.
  let grouping: Grouping
  /// Ranked, the worst first.
  let groups: [StallGroup]
  /// What the stalls' stacks amount to, the heaviest first.
  let stacks: [WeightedStack]
  /// A row for each stall, in no order; ``Stall/group`` and ``Stall/stack`` are numbers of ``groups`` and ``stacks``.
  let stalls: StallTable
  let skipped: SkippedLines
  /// Lines that were read, those that were skipped included.
  let lines: Int
  /// Files that could not be read, or not to their end.
  let unreadable: [InputFiles.Failure]
  /// Lines made before are left out, in seconds since 1970; nil if none are.
  let since: Double?
  /// At least so many stalls have a stack that is left out of ``stacks``, for lack of space.
  let omittedStacks: Int
  /// Summaries that a limit on durations left out: they do not have the duration of each stall.
  let omittedSummaries: Int
  /// The names of causes.
  let causes: [String]
  /// The texts that numbers represent.
  let texts: TextTable
  private let table: StackTable

  /// The text that a number represents; empty for none.
  func text(_ number: UInt32) -> String { texts[number] }

  /// The name of a cause.
  func cause(_ number: UInt8) -> String { causes[Int(number)] }

  /// The frames of a stack, innermost first.
  func frames(of stack: WeightedStack) -> [ReportFrame] { table[stack.frames].map { table.frames[Int($0)] } }

  /// The frame's function as people read it: its symbol, or module and offset.
  func name(of frame: ReportFrame) -> String {
    if frame.symbol != 0 { return texts[frame.symbol] }
    let module = texts[frame.module].lastPathPart ?? "unknown module"
    return frame.offset.map { "\(module)+0x" + String($0, radix: 16) } ?? module
  }

  /// Makes groups and weighted stacks of what was read.
  ///
  /// `limit` is the shortest stall that counts, in milliseconds; `release`, if given, the only `service.version` that does.
  init(_ pass: consuming ReportPass, grouping: Grouping, shortest limit: Double = 0, release: String? = nil) {
    self.grouping = grouping
    skipped = pass.skipped
    lines = pass.lines
    unreadable = pass.unreadable
    since = pass.filter.since.isFinite ? pass.filter.since : nil
    texts = pass.texts
    causes = pass.causes
    table = pass.stacks
    omittedStacks = pass.stacks.omitted
    var stalls = pass.takeStalls()
    if let release {
      let texts = texts
      var wanted: [UInt32: Bool] = [:]
      stalls.keep { stall in
        if let known = wanted[stall.release] { return known }
        wanted[stall.release] = texts[stall.release] == release
        return texts[stall.release] == release
      }
    }
    if limit > 0 {
      omittedSummaries = stalls.reduce(0) { $0 + ($1.isSummary ? 1 : 0) }
      stalls.keep { !$0.isSummary && $0.milliseconds >= limit }
    } else {
      omittedSummaries = 0
    }
    stacks = WeightedStack.weigh(&stalls)
    groups = GroupingPass(grouping, texts: texts, causes: causes).run(&stalls)
    self.stalls = stalls
  }
}

extension WeightedStack {
  /// The stacks that stalls have, the heaviest first; the stalls are given their numbers.
  fileprivate static func weigh(_ stalls: inout StallTable) -> [WeightedStack] {
    struct Key: Hashable {
      var frames: UInt32
      var service: UInt32
      var cause: UInt8
    }
    var numbers: [Key: Int] = [:]
    var stacks: [WeightedStack] = []
    for row in stalls.indices where stalls[row].stack != Stall.noStack {
      let stall = stalls[row]
      let key = Key(frames: stall.stack, service: stall.service, cause: stall.cause)
      let number = numbers[key, default: stacks.count]
      if number == stacks.count {
        numbers[key] = number
        stacks.append(WeightedStack(frames: stall.stack, cause: stall.cause, service: stall.service))
      }
      stacks[number].milliseconds += stall.milliseconds
      stacks[number].count += Int(stall.count)
      stalls[row].stack = UInt32(number)
    }
    let order = stacks.indices.sorted {
      (stacks[$1].milliseconds, $0) < (stacks[$0].milliseconds, $1)
    }
    var places = [UInt32](repeating: 0, count: stacks.count)
    for (place, number) in order.enumerated() { places[number] = UInt32(place) }
    for row in stalls.indices where stalls[row].stack != Stall.noStack {
      stalls[row].stack = places[Int(stalls[row].stack)]
    }
    return order.map { stacks[$0] }
  }
}
