import StallMonitor
import StallReport

/// The parts that are omitted from a line that names have made too long.
extension ReportCompletion {
  /// By how much the line becomes longer by its stacks, if no frame has to be omitted.
  func growth(_ stacks: [(Range<Int>, [FrameText])]) -> Int {
    stacks.reduce(0) { $0 + StackTrim.size(of: $1.1.map(\.members.count)) - ($1.0.count - 2) }
  }

  /// Writes the stacks, without frames from their middles, and without the last threads, where the line would be too long.
  ///
  /// `responsible` is the frame of the loop's own stack that stays in any case.
  func fit(
    _ own: [FrameText], keeping responsible: Int?, _ ownRange: Range<Int>, _ others: [(Range<Int>, [FrameText])],
    lineSize: Int, text: JSONText,
    _ edits: inout TextEdits
  ) {
    let sizes = ([own] + others.map(\.1)).map { $0.map { $0.members.count } }
    let stackSizes = sizes.map { StackTrim.size(of: $0) }
    let threads = text.root["threads"]?.elements ?? []
    let shownThreads = threads.filter { $0["stack"]?.elements != nil }
    let heads = zip(shownThreads, others).map { $0.range.count - $1.0.count + 2 }
    // "[]" of each stack stays.
    var rest = lineSize - (ownRange.count - 2) - others.reduce(0) { $0 + $1.0.count - 2 }
    let fits = rest + stackSizes.reduce(0, +) <= StackTrim.longestLine
    var threadCount = others.count
    if !fits {
      rest += ",\"threads_omitted\":100000,\"frames_omitted\":100000".utf8.count
      let room = StackTrim.longestLine - rest + heads.reduce(0, +)
      // As the monitor does it: the loop's own stack has half in any case, and a thread with three frames is worth its space.
      threadCount = Self.fitting(
        zip(heads, sizes.dropFirst()).map { $0 + StackTrim.size(of: Array($1.prefix(3))) },
        in: room - max(min(room / 2, stackSizes[0]), 0))
      rest -= heads[threadCount...].reduce(0, +)
    }
    var room = StackTrim.longestLine - rest
    var wantedLater = stackSizes[1...].prefix(threadCount).reduce(0, +)
    var omitted = 0
    for (index, (range, frames)) in ([(ownRange, own)] + others.prefix(threadCount)).enumerated() {
      if index > 0 { wantedLater -= stackSizes[index] }
      let later = threadCount - index
      // The loop's own stack has what the others leave, and half in any case; those share alike.
      let share = later == 0 ? room : index == 0 ? max(room / 2, room - wantedLater) : room / (later + 1)
      var kept = frames
      if !fits {
        kept.removeSubranges(StackTrim.omitted(of: sizes[index], room: share, keeping: index == 0 ? responsible : nil))
      }
      omitted += frames.count - kept.count
      room -= StackTrim.size(of: kept.map(\.members.count))
      let items = kept.map { [UInt8(ascii: "{")] + $0.members + [UInt8(ascii: "}")] }
      edits.replace(range, with: Array("[".utf8) + items.joined(separator: [UInt8(ascii: ",")]) + Array("]".utf8))
    }
    var additions: [UInt8] = []
    if threadCount < others.count, let array = text.root["threads"]?.range {
      let start = threadCount > 0 ? shownThreads[threadCount - 1].range.upperBound : array.lowerBound + 1
      edits.replace(start..<(array.upperBound - 1), with: [])
      additions += count(others.count - threadCount, as: "threads_omitted", text, &edits)
    }
    if omitted > 0 { additions += count(omitted, as: "frames_omitted", text, &edits) }
    if !additions.isEmpty { edits.insert(additions, at: text.root.range.upperBound - 1) }
  }

  /// How many of the sizes fit, from the first one on.
  private static func fitting(_ sizes: [Int], in room: Int) -> Int {
    var left = room
    return sizes.firstIndex {
      left -= $0
      return left < 0
    } ?? sizes.count
  }

  /// Adds to a number of the line; what is to be inserted if the line does not have it.
  private func count(_ more: Int, as key: String, _ text: JSONText, _ edits: inout TextEdits) -> [UInt8] {
    guard let before = text.root[key] else { return Array(",\"\(key)\":\(more)".utf8) }
    // The line may claim any number.
    let sum = min(max(text.integer(before) ?? 0, 0), 1_000_000_000) + more
    edits.replace(before.range, with: Array(String(sum).utf8))
    return []
  }
}
