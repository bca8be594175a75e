import StallMonitor

/// Completes the frames of one report line that lack a name, a file or a line.
///
/// Everything else stays as it is written, byte for byte, except:
/// - the frames themselves: one that is in the middle of inlined calls becomes several;
/// - `stall.culprit`, if it was missing or was a module and an offset, and the place in `message` that goes with it;
/// - `stall.fingerprint`, if it was missing or the culprit had no name, and no frame was taken out of the line;
/// - `frames_omitted` and `threads_omitted`, if the line would become longer than 8000 bytes.
///
/// Culprit and fingerprint follow the monitor's own rules. Where it cannot be told whose code a frame is (its file is not
/// to be had), they are left alone.
struct ReportCompletion {
  /// What became of a line.
  enum Outcome {
    case completed([UInt8], frames: Int)
    /// Every frame has all that it can have.
    case unchanged
    case notAReport(String)
  }

  /// What is at an offset of a build, or nil if no file of that build is to be had.
  typealias Lookup = (_ buildID: String, _ modulePath: String?, _ offset: UInt64) -> [SymbolizedFrame]?

  private let lookup: Lookup

  init(_ lookup: @escaping Lookup) { self.lookup = lookup }

  /// Completes a line without its newline.
  func complete(_ line: [UInt8]) -> Outcome {
    let text: JSONText
    do {
      text = try JSONText(line)
    } catch {
      return .notAReport("not JSON: \(error.reason) at byte \(error.position + 1)")
    }
    guard let event = text.string(text.root["event"]?["name"]), event.hasPrefix("stall."),
      let schema = text.string(text.root["event"]?["schema"]), let own = text.root["stack"]?.elements
    else { return .notAReport("no stall report") }
    guard schema.hasPrefix("1.") else { return .notAReport("event.schema \"\(schema)\" is not 1.x") }

    let executable = text.root["process"]?["executable"]
    let reader = FrameReader(
      text: text, executablePath: text.string(executable?["path"]),
      executableBuildID: text.string(executable?["build_id"]?["gnu"]), lookup: lookup)
    var named = 0
    let stack = reader.frames(own, named: &named)
    let others = (text.root["threads"]?.elements ?? []).compactMap { thread in
      thread["stack"].flatMap { value in value.elements.map { (value.range, reader.frames($0, named: &named)) } }
    }
    // A host that leaves the names to others sends longer lines.
    guard named > 0 || line.count >= StackTrim.longestLine, let ownRange = text.root["stack"]?.range else {
      return .unchanged
    }

    var edits = TextEdits()
    if named > 0 { reidentify(text, stack, reader: reader, &edits) }
    let size = line.count + 1 + edits.growth
    fit(stack, ownRange, others, lineSize: size, text: text, &edits)
    return .completed(edits.apply(to: line), frames: named)
  }

  // MARK: Culprit, fingerprint, message

  private func reidentify(_ text: JSONText, _ stack: [FrameText], reader: FrameReader, _ edits: inout TextEdits) {
    guard let stall = text.root["stall"], case .object(_, let stallRange) = stall else { return }
    let old = text.string(stall["culprit"])
    let originals = Set(stack.compactMap { $0.original.symbol == nil ? $0.original.name : nil })
    let wasUnnamed = old.map { originals.contains($0) } ?? true
    let judged = reader.judge(stack)

    var place: (before: String, after: String)?
    var additions: [UInt8] = []
    if wasUnnamed, let culprit = judged.culprit, culprit.name != old {
      set("culprit", culprit.name.limited(to: 500), in: stall, text, &edits, &additions)
      if let old {
        place = (" in \(old)", " in \(culprit.place)")
      } else {
        place = (" ms: ", " ms in \(culprit.place): ")
      }
    } else if let old, let frame = stack.first(where: { $0.frame.symbol == old && $0.isNew }),
      let short = frame.frame.shortSymbol
    {
      place = (" in \(short)", " in \(frame.frame.place)")
    }
    if wasUnnamed || stall["fingerprint"] == nil, text.root["frames_omitted"] == nil, let print = judged.fingerprint {
      set("fingerprint", print, in: stall, text, &edits, &additions)
    }
    if !additions.isEmpty {
      // Not first in the object: an empty one is no report's.
      edits.insert(additions, at: stallRange.upperBound - 1)
    }
    if let place, let message = text.string(text.root["message"]), let value = text.root["message"],
      let found = Self.place(place.before, in: message)
    {
      let new = String(message[..<found.lowerBound]) + place.after + message[found.upperBound...]
      edits.replace(value.range, with: JSONText.quoted(new.limited(to: 600)))
    }
  }

  /// Where the place stands: before a colon, or before the process's end.
  private static func place(_ text: String, in message: String) -> Range<String.Index>? {
    message.ranges(of: text).first {
      let rest = message[$0.upperBound...]
      return text.hasSuffix(":") || text.hasSuffix(": ") || rest.hasPrefix(":")
        || rest.hasPrefix(" when the process ended")
    }
  }

  private func set(
    _ key: StaticString, _ value: String, in object: JSONText.Value, _ text: JSONText, _ edits: inout TextEdits,
    _ additions: inout [UInt8]
  ) {
    if let old = object["\(key)"] {
      if text.string(old) != value { edits.replace(old.range, with: JSONText.quoted(value)) }
    } else {
      var member = JSONLine()
      member.member(key, value)
      additions += [UInt8(ascii: ",")] + member.bytes
    }
  }

  // MARK: Length

  /// Writes the stacks, without frames from their middles, and without the last threads, where the line would be too long.
  private func fit(
    _ own: [FrameText], _ ownRange: Range<Int>, _ others: [(Range<Int>, [FrameText])], lineSize: Int, text: JSONText,
    _ edits: inout TextEdits
  ) {
    let sizes = ([own] + others.map(\.1)).map { $0.map { $0.members.count } }
    let stackSizes = sizes.map { StackTrim.size(of: $0) }
    let threads = text.root["threads"]?.elements ?? []
    let toldThreads = threads.filter { $0["stack"]?.elements != nil }
    let heads = zip(toldThreads, others).map { $0.range.count - $1.0.count + 2 }
    // "[]" of each stack stays.
    var rest = lineSize - (ownRange.count - 2) - others.reduce(0) { $0 + $1.0.count - 2 }
    let fits = rest + stackSizes.reduce(0, +) <= StackTrim.longestLine
    var told = others.count
    if !fits {
      rest += ",\"threads_omitted\":100000,\"frames_omitted\":100000".utf8.count
      let room = StackTrim.longestLine - rest + heads.reduce(0, +)
      // As the monitor does it: the loop's own stack has half in any case, and a thread with three frames is worth its room.
      told = Self.fitting(
        zip(heads, sizes.dropFirst()).map { $0 + StackTrim.size(of: Array($1.prefix(3))) },
        in: room - max(min(room / 2, stackSizes[0]), 0))
      rest -= heads[told...].reduce(0, +)
    }
    var room = StackTrim.longestLine - rest
    var wantedLater = stackSizes[1...].prefix(told).reduce(0, +)
    var omitted = 0
    for (index, (range, frames)) in ([(ownRange, own)] + others.prefix(told)).enumerated() {
      if index > 0 { wantedLater -= stackSizes[index] }
      let later = told - index
      // The loop's own stack has what the others leave, and half in any case; those share alike.
      let share = later == 0 ? room : index == 0 ? max(room / 2, room - wantedLater) : room / (later + 1)
      let gap = fits ? 0..<0 : StackTrim.middle(of: sizes[index], room: share)
      var kept = frames
      kept.removeSubrange(gap)
      omitted += gap.count
      room -= StackTrim.size(of: kept.map(\.members.count))
      let items = kept.map { [UInt8(ascii: "{")] + $0.members + [UInt8(ascii: "}")] }
      edits.replace(range, with: Array("[".utf8) + items.joined(separator: [UInt8(ascii: ",")]) + Array("]".utf8))
    }
    var additions: [UInt8] = []
    if told < others.count, let array = text.root["threads"]?.range {
      let start = told > 0 ? toldThreads[told - 1].range.upperBound : array.lowerBound + 1
      edits.replace(start..<(array.upperBound - 1), with: [])
      additions += count(others.count - told, as: "threads_omitted", text, &edits)
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
    // Whoever wrote the line may claim any number.
    let sum = min(max(text.integer(before) ?? 0, 0), 1_000_000_000) + more
    edits.replace(before.range, with: Array(String(sum).utf8))
    return []
  }
}
