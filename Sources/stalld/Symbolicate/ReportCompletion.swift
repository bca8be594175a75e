import StallNaming
import StallReport

/// Completes the frames of one report line that lack a name, a file or a line, and what hangs on names.
///
/// Everything else stays as it is written, byte for byte, except:
/// - the frames themselves: one that is in the middle of inlined calls becomes several;
/// - `stall.culprit`, `stall.fingerprint`, `stall.path` and `message`, by the rules of ``ReportNaming``;
/// - `call_tree`, which is taken out when nothing more can be learned from it, or there is no space;
/// - `frames_omitted` and `threads_omitted`, if the line would become longer than 8000 bytes.
///
/// A message that is not the one which the monitor makes of the line is left as it is.
struct ReportCompletion {
  /// What became of a line.
  enum Outcome {
    case completed([UInt8], frames: Int)
    /// Every frame has all that it can have.
    case unchanged
    case notAReport(String)
  }

  private let lookup: ReportNaming.Lookup

  init(_ lookup: @escaping ReportNaming.Lookup) { self.lookup = lookup }

  /// Completes a line without its newline.
  func complete(_ line: [UInt8]) -> Outcome {
    let text: JSONText
    do {
      text = try JSONText(line)
    } catch {
      return .notAReport("not JSON: \(error.reason) at byte \(error.position + 1)")
    }
    guard text.string(text.root["event"]?["name"])?.hasPrefix("stall.") == true,
      let schema = text.string(text.root["event"]?["schema"])
    else { return .notAReport("not a stall report") }
    guard schema.hasPrefix("1.") else { return .notAReport("event.schema \"\(schema)\" is not 1.x") }
    guard let report = Report(text) else { return .notAReport("not a stall report") }

    let tree = CallTree(text, text.root["call_tree"])
    let naming = ReportNaming(
      report, tree: tree, isWhole: text.root["frames_omitted"] == nil, lookup: lookup)
    // A service that leaves the names to others sends longer lines.
    guard naming.namedFrames > 0 || naming.isTreeDone || line.count >= Report.longestLine else { return .unchanged }
    return .completed(LineRewriting(text: text, before: report, naming: naming).line, frames: naming.namedFrames)
  }
}

/// Writes a line again, with what names have changed; the other members are copied.
private struct LineRewriting {
  let text: JSONText
  let before: Report
  let naming: ReportNaming

  /// Without a newline.
  var line: [UInt8] {
    let head = head
    let tree = naming.isTreeDone ? nil : members(of: text.root).first { $0.key == "call_tree" }?.member
    if let tree {
      let whole = line(head, tree: tree, space: .max / 8)
      if whole.count < Report.longestLine { return whole }
    }
    return line(head, tree: nil, space: Report.longestLine - head.terminated().count - StackLayout.overhead)
  }

  private func line(_ head: JSONWriter, tree: Range<Int>?, space: Int) -> [UInt8] {
    let layout = StackLayout(
      self.frames(naming.stack, of: text.root["stack"]),
      keeping: Culprit.responsibleIndex(of: naming.report.stack), threads, space: space)
    var line = head
    layout.write(
      into: &line, threadsOmittedBefore: omitted("threads_omitted"), framesOmittedBefore: omitted("frames_omitted"))
    if let tree { line.written(text.bytes[tree]) }
    return line.terminated().dropLast()
  }

  /// A number of the line, which may claim any.
  private func omitted(_ key: String) -> Int { min(max(text.integer(text.root[key]) ?? 0, 0), 1_000_000_000) }

  /// Everything except the stacks.
  private var head: JSONWriter {
    var line = JSONWriter()
    for (key, member, value) in members(of: text.root) {
      switch key {
      case "stack", "threads", "threads_omitted", "frames_omitted", "call_tree": continue
      case "message" where text.string(value) == naming.messageBefore: line.member("message", naming.report.message)
      case "stall": line.object("stall", required: true) { writeStall(value, into: &$0) }
      default: line.written(text.bytes[member])
      }
    }
    return line
  }

  private func writeStall(_ stall: JSONText.Value, into object: inout JSONWriter) {
    var changed: [String: JSONWriter] = [:]
    func change(_ key: String, _ write: (inout JSONWriter) -> Void) {
      var member = JSONWriter()
      write(&member)
      changed[key] = member
    }
    let after = naming.report
    if after.culprit?.name != before.culprit?.name {
      change("culprit") { $0.member("culprit", after.culprit?.name.limited(to: 500)) }
    }
    if after.fingerprint != before.fingerprint { change("fingerprint") { $0.member("fingerprint", after.fingerprint) } }
    if let path = after.path { change("path") { $0.object("path", path.write) } }
    for (key, member, _) in members(of: stall) {
      if let new = changed.removeValue(forKey: key) {
        object.append(members: new)
      } else {
        object.written(text.bytes[member])
      }
    }
    for key in ["culprit", "fingerprint", "path"] {
      if let new = changed[key] { object.append(members: new) }
    }
  }

  // MARK: Stacks

  private var threads: [StackLayout.Thread] {
    let values = text.root["threads"]?.elements ?? []
    return zip(values, naming.threads).map { value, stack in
      var head = JSONWriter()
      for (key, member, _) in members(of: value) where key != "stack" { head.written(text.bytes[member]) }
      return StackLayout.Thread(
        head: head, isWaitedFor: text.string(value["role"]) == Report.OtherThread.Role.lockHolder.rawValue,
        frames: frames(stack, of: value["stack"]))
    }
  }

  private func frames(_ frames: [ReportNaming.NamedFrame], of stack: JSONText.Value?) -> [JSONWriter] {
    let values = stack?.elements ?? []
    return frames.map { named in
      var object = JSONWriter()
      let value = values[named.number]
      var old = Set(["symbol", "file", "line"])
      if named.isNew {
        let frame = named.frame
        // What is known of the physical function is not of one that was inlined into it.
        if !frame.isInlined {
          if text.string(value["symbol"]) != nil { old.remove("symbol") }
          if text.string(value["file"]) != nil { old.subtract(["file", "line"]) }
        }
        if old.contains("symbol") { object.member("symbol", frame.symbol?.limited(to: 700)) }
        if old.contains("file") {
          object.member("file", frame.file?.limited(to: 300))
          object.member("line", frame.line)
        }
        object.member("inlined", ifTrue: frame.isInlined)
      } else {
        old = []
      }
      for (key, member, _) in members(of: value) where !old.contains(key) { object.written(text.bytes[member]) }
      return object
    }
  }

  private func members(of value: JSONText.Value) -> [(key: String, member: Range<Int>, value: JSONText.Value)] {
    if case .object(let members, _) = value { members } else { [] }
  }
}
