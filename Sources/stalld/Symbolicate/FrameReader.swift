import StallMonitor
import StallReport
import StallNaming

/// A frame of a line: the members as they are to be written, and what is known of it.
struct FrameText {
  /// The object's members, without its braces.
  var members: [UInt8]
  var frame: StackFrame
  /// The frame as the line had it.
  var original: StackFrame
  /// Something was added to it.
  var isNew = false
  /// The owner of the code is unknown: the file is missing, and the demangled name does not show it.
  var isUnjudged = false
}

/// Reads the frames of one line, and completes those for whose build there is a file.
struct FrameReader {
  let text: JSONText
  let executablePath: String?
  let executableBuildID: String?
  let lookup: ReportCompletion.Lookup

  /// The frames of a stack; `named` counts those that something was added to.
  func frames(_ values: [JSONText.Value], named: inout Int) -> [FrameText] {
    var frames: [FrameText] = []
    var isInsideInlined = false
    for value in values {
      let original = frame(value)
      // What is inlined, and the function that it is in, had debug information when the line was made.
      let isWhole = original.isInlined || isInsideInlined || (original.symbol != nil && original.file != nil)
      isInsideInlined = original.isInlined
      let completed = isWhole ? nil : complete(value, original)
      if let completed {
        named += 1
        frames += completed
      } else {
        frames.append(FrameText(members: members(value, without: []), frame: original, original: original))
      }
    }
    return frames
  }

  /// All samples of a line (`call_tree`) with names; nil if there is none, or it is no tree.
  ///
  /// A frame without a file gets its name from the line's own stack, if it is there.
  func tree(_ value: JSONText.Value?, beside judged: [FrameText]) -> CallTree? {
    guard let value else { return nil }
    var known: [ModuleOffset: [StackFrame]] = [:]
    var inlined: [StackFrame] = []
    for given in judged {
      var frame = given.frame
      if given.isUnjudged { frame.symbol = nil }
      inlined.append(frame)
      if frame.isInlined { continue }
      // One that nobody knows makes all frames of its address unknown.
      known[ModuleOffset(frame)] = inlined.contains { $0.symbol == nil } ? nil : inlined
      inlined = []
    }
    let reader = CallTreeReader(text: text) { unnamed in
      if let frames = known[ModuleOffset(unnamed)] { return frames }
      let frames = unnamed.named(find(unnamed) ?? [], isExecutable: isExecutable(unnamed))
      known[ModuleOffset(unnamed)] = frames
      return frames
    }
    return reader.tree(value)
  }

  /// What a frame is known by before it has names.
  private struct ModuleOffset: Hashable {
    var module: String?
    var offset: UInt64?

    var isAsync: Bool

    init(_ frame: StackFrame) { (module, offset, isAsync) = (frame.module, frame.offset, frame.isAsync) }
  }

  // MARK: One frame

  private func frame(_ value: JSONText.Value) -> StackFrame {
    let offset = text.string(value["offset"]).flatMap { Hexadecimal.number($0) }
    var frame = StackFrame(
      module: text.string(value["module"]), buildID: text.string(value["build_id"]), offset: offset)
    frame.symbol = text.string(value["symbol"])
    frame.file = text.string(value["file"])
    frame.line = text.integer(value["line"])
    frame.isInlined = text.isTrue(value["inlined"])
    frame.isAsync = text.isTrue(value["async"])
    return frame
  }

  private func isExecutable(_ frame: StackFrame) -> Bool {
    if let id = frame.buildID, let executableBuildID { return id == executableBuildID }
    return frame.module != nil && frame.module == executablePath
  }

  private func find(_ frame: StackFrame) -> [SymbolizedFrame]? {
    guard let id = frame.buildID, let offset = frame.offset else { return nil }
    return lookup(id, frame.module, offset)
  }

  private func complete(_ value: JSONText.Value, _ original: StackFrame) -> [FrameText]? {
    guard let names = find(original), let physical = names.last else { return nil }
    let adds = original.symbol == nil || physical.file != nil || names.count > 1
    guard adds else { return nil }
    var result: [FrameText] = []
    for var frame in original.named(names, isExecutable: isExecutable(original)) {
      if !frame.isInlined, let symbol = original.symbol { frame.symbol = symbol }
      if !frame.isInlined, original.file != nil { (frame.file, frame.line) = (original.file, original.line) }
      var added = JSONWriter()
      let keepsSymbol = !frame.isInlined && original.symbol != nil
      let keepsFile = !frame.isInlined && original.file != nil
      if !keepsSymbol { added.member("symbol", frame.symbol?.limited(to: 700)) }
      if !keepsFile {
        added.member("file", frame.file?.limited(to: 300))
        added.member("line", frame.line)
      }
      added.member("inlined", ifTrue: frame.isInlined)
      // What represents the physical function does not represent one that was inlined into it.
      let rest = members(value, without: frame.isInlined ? ["symbol", "file", "line"] : keepsFile ? [] : ["line"])
      let comma: [UInt8] = added.bytes.isEmpty || rest.isEmpty ? [] : [UInt8(ascii: ",")]
      result.append(
        FrameText(members: added.bytes + comma + rest, frame: frame, original: original, isNew: true))
    }
    return result
  }

  /// The members' text as it is in the line.
  private func members(_ value: JSONText.Value, without keys: Set<String>) -> [UInt8] {
    guard case .object(let members, let range) = value else { return [] }
    if keys.isEmpty { return Array(text.bytes[(range.lowerBound + 1)..<(range.upperBound - 1)]) }
    let kept = members.filter { !keys.contains($0.key) }.map { Array(text.bytes[$0.member]) }
    return Array(kept.joined(separator: [UInt8(ascii: ",")]))
  }

  /// Whose code a frame is that came with its name: the linker's name says, which only the file has.
  func judge(_ given: FrameText) -> FrameText {
    guard !given.isNew else { return given }
    var result = given
    let names = given.frame.isInlined || given.frame.symbol == nil ? nil : find(given.frame)
    if let physical = names?.last {
      let known = given.frame.named([physical], isExecutable: isExecutable(given.frame))[0]
      result.frame.owner = known.owner
      result.frame.isCompilerGenerated = known.isCompilerGenerated
      result.frame.isMerged = known.isMerged
      return result
    }
    if let inlined = given.frame.isInlined ? find(given.frame) : nil,
      let name = inlined.first(where: { $0.inlined && $0.symbol == given.frame.symbol })
    {
      let known = given.frame.named([name], isExecutable: isExecutable(given.frame))[0]
      result.frame.owner = known.owner
      result.frame.isCompilerGenerated = known.isCompilerGenerated
      result.frame.isMerged = known.isMerged
      return result
    }
    // C: the name is the linker's. Otherwise only the module shows whether it is the system's or a
    // runtime's.
    let symbol = given.frame.symbol
    let isC = symbol.map {
      $0.utf8.allSatisfy { $0 == 0x5f || (0x30...0x39).contains($0) || (0x61...0x7a).contains($0 | 0x20) }
    }
    let plain = SymbolizedFrame(linkageName: isC == true ? symbol : nil)
    result.frame.owner = given.frame.named([plain], isExecutable: isExecutable(given.frame))[0].owner
    // Only the module's file shows whether the library is linked in that has such names; the libraries have no source files.
    let mayBeLibrary =
      given.frame.file == nil && symbol.map { LinkedLibrary.candidate(linkageName: $0, symbol: nil) != nil } == true
    result.isUnjudged = result.frame.owner == .host && (isC == false || mayBeLibrary)
    return result
  }
}
