import StallMonitor
import StallReport

/// Completes the frames of one report line that lack a name, a file or a line.
///
/// Everything else stays as it is written, byte for byte, except:
/// - the frames themselves: one that is in the middle of inlined calls becomes several;
/// - `stall.culprit`, if it was missing or was a module and an offset, and the place in `message` that goes with it;
/// - `stall.fingerprint`, if it was missing, or `stall.culprit` had no name, or the line has its samples (`call_tree`). If it is ambiguous, one that was made
///   without the new name is removed;
/// - `stall.path`, if the line has its samples, or one sample is all;
/// - `call_tree`, which is taken out when nothing more can be learned from it, or there is no space;
/// - `frames_omitted` and `threads_omitted`, if the line would become longer than 8000 bytes.
///
/// Responsible function and fingerprint follow the monitor's own rules. If the owner of a frame's
/// code is unknown (its file was not found), they are not changed.
struct ReportCompletion {
  /// What became of a line.
  enum Outcome {
    case completed([UInt8], frames: Int)
    /// Every frame has all that it can have.
    case unchanged
    case notAReport(String)
  }

  /// Returns what is at an offset of a build; nil if there is no file of that build.
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
    else { return .notAReport("not a stall report") }
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
    let hasTree = text.root["call_tree"] != nil
    let identity = named > 0 || hasTree ? identity(text, event, stack, reader) : nil
    let isTreeDone = identity?.isTreeDone ?? false
    // A service that leaves the names to others sends longer lines.
    guard named > 0 || isTreeDone || line.count >= StackTrim.longestLine, let ownRange = text.root["stack"]?.range
    else { return .unchanged }

    var edits = TextEdits()
    if named > 0 || isTreeDone, let stall = identity?.stall { reidentify(text, stack, stall, &edits) }
    if let tree = text.root.removal(of: "call_tree") {
      let size = line.count + 1 + edits.growth + growth([(ownRange, stack)] + others)
      if isTreeDone || size > StackTrim.longestLine { edits.replace(tree, with: []) }
    }
    let size = line.count + 1 + edits.growth
    let responsible = Culprit.responsibleIndex(of: stack.map { reader.judge($0).frame })
    fit(stack, keeping: responsible, ownRange, others, lineSize: size, text: text, &edits)
    return .completed(edits.apply(to: line), frames: named)
  }

  // MARK: Responsible function, fingerprint, path, message

  /// The identity of the stall, and whether its samples, if the line has them, are no longer
  /// needed.
  private func identity(
    _ text: JSONText, _ event: String, _ stack: [FrameText], _ reader: FrameReader
  ) -> (stall: StallAttribution, isTreeDone: Bool) {
    let judged = stack.map(reader.judge)
    let tree = reader.tree(text.root["call_tree"], beside: judged)
    let stall = StallAttribution(
      stack: judged, isWhole: text.root["frames_omitted"] == nil, tree: tree,
      samples: text.integer(text.root["stall"]?["samples"]) ?? 1,
      ran: ran(text))
    let isDone = stall.isFingerprintCertain && (stall.isPathCertain || event != Report.Event.ended.rawValue)
    return (stall, tree != nil && isDone)
  }

  private func reidentify(
    _ text: JSONText, _ stack: [FrameText], _ judged: StallAttribution, _ edits: inout TextEdits
  ) {
    guard let stall = text.root["stall"], case .object(_, let stallRange) = stall else { return }
    let old = text.string(stall["culprit"])
    let originals = Set(stack.compactMap { $0.original.symbol == nil ? $0.original.name : nil })
    let wasUnnamed = old.map { originals.contains($0) } ?? true

    var place: (before: String, after: String)?
    var additions: [UInt8] = []
    if wasUnnamed, let culprit = judged.culprit, culprit.name != old {
      set("culprit", culprit.name.limited(to: 500), in: stall, text, &edits, &additions)
      if let old {
        place = (" in \(old)", " in \(culprit.place)")
      } else {
        // After the duration, or in a summary after the number of stalls.
        let message = text.string(text.root["message"]) ?? ""
        let before = [" ms", " more times", " once more"].first { message.contains($0 + ": ") } ?? " ms"
        place = (before + ": ", "\(before) in \(culprit.place): ")
      }
    } else if let old, let frame = stack.first(where: { $0.frame.symbol == old && $0.isNew }),
      let short = frame.frame.shortSymbol
    {
      place = (" in \(short)", " in \(frame.frame.place)")
    }
    let hasTree = text.root["call_tree"] != nil
    if judged.isFingerprintCertain {
      if wasUnnamed || hasTree || stall["fingerprint"] == nil {
        if let print = judged.fingerprint {
          set("fingerprint", print, in: stall, text, &edits, &additions)
        } else if let old = stall.removal(of: "fingerprint") {
          edits.replace(old, with: [])
        }
      }
    } else if wasUnnamed, ran(text), let culprit = judged.culprit, culprit.name != old,
      let old = stall.removal(of: "fingerprint")
    {
      edits.replace(old, with: [])
    }
    if text.string(text.root["event"]?["name"]) == Report.Event.ended.rawValue, wasUnnamed || hasTree,
      judged.isPathCertain,
      let path = judged.path
    {
      set("path", path, in: stall, &edits, &additions)
    }
    if !additions.isEmpty {
      // Not first in the object: an empty one is no report's.
      edits.insert(additions, at: stallRange.upperBound - 1)
    }
    if let place, let message = text.string(text.root["message"]), let value = text.root["message"],
      let found = Self.place(place.before, in: message)
    {
      let new = String(message[..<found.lowerBound]) + place.after + message[found.upperBound...]
      edits.replace(value.range, with: JSONWriter.quoted(new.limited(to: 600)))
    }
  }

  /// Where the place is: before a colon, or before the process's end.
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
      if text.string(old) != value { edits.replace(old.range, with: JSONWriter.quoted(value)) }
    } else {
      var member = JSONWriter()
      member.member(key, value)
      additions += [UInt8(ascii: ",")] + member.bytes
    }
  }

  private func set(
    _ key: StaticString, _ path: CallTree.Path, in object: JSONText.Value, _ edits: inout TextEdits,
    _ additions: inout [UInt8]
  ) {
    var members = JSONWriter()
    path.write(to: &members)
    guard !members.bytes.isEmpty else { return }
    if let old = object["\(key)"] {
      edits.replace(old.range, with: [UInt8(ascii: "{")] + members.bytes + [UInt8(ascii: "}")])
    } else {
      var member = JSONWriter()
      member.object(key, path.write)
      additions += [UInt8(ascii: ",")] + member.bytes
    }
  }

  private func ran(_ text: JSONText) -> Bool {
    guard let state = text.string(text.root["stall"]?["evidence"]?["state"]) else {
      // A summary of stalls has no state, and has samples only of those that ran.
      return text.root["call_tree"] != nil
    }
    return state == "running"
  }
}
