import StallReport

/// Adds to a report that was read from a line what the files of its builds show: names, and what hangs on names.
///
/// If the owner of a frame's code is unknown (its file was not found), what hangs on that is not changed.
package struct ReportNaming {
  /// Returns what is at an offset of a build; nil if there is no file of that build.
  package typealias Lookup = (_ buildID: String, _ modulePath: String?, _ offset: UInt64) -> [SymbolizedFrame]?

  /// A frame with its names, and which frame of the line it is at.
  package struct NamedFrame {
    package var frame: StackFrame
    package var number: Int
    /// The line does not have all of it.
    package var isNew = false
    /// The owner of the code is unknown: the file is missing, and the demangled name does not show it.
    fileprivate var isUnjudged = false
  }

  /// The report with its names.
  package private(set) var report: Report
  /// The frames of the loop's own stack, and of those of the other threads.
  package private(set) var stack: [NamedFrame] = []
  package private(set) var threads: [[NamedFrame]] = []
  /// How many frames something was added to.
  package private(set) var namedFrames = 0
  /// The samples of the line can show nothing more.
  package private(set) var isTreeDone = false
  /// The sentence that is made of the report without these names.
  package private(set) var messageBefore = ""

  private let lookup: Lookup

  /// - Parameters:
  ///   - report: The report as its line has it.
  ///   - tree: All samples, without names; nil if the line does not have them.
  ///   - isWhole: No frame was taken out of the loop's own stack.
  ///   - lookup: Finds functions.
  package init(_ report: Report, tree: CallTree?, isWhole: Bool, lookup: @escaping Lookup) {
    (self.report, self.lookup) = (report, lookup)
    var before = report
    before.stack = report.stack.map { judge($0, 0).frame }
    before.culprit = report.culprit.map { culprit in before.stack.first { $0.name == culprit.name } ?? culprit }
    for index in before.threads.indices {
      before.threads[index].stack = before.threads[index].stack.map { judge($0, 0).frame }
    }
    messageBefore = before.message
    self.report.culprit = before.culprit
    stack = frames(of: report.stack)
    threads = report.threads.map { frames(of: $0.stack) }
    self.report.stack = stack.map(\.frame)
    for index in threads.indices { self.report.threads[index].stack = threads[index].map(\.frame) }
    namedFrames =
      Set(stack.filter(\.isNew).map(\.number)).count
      + threads.reduce(0) { $0 + Set($1.filter(\.isNew).map(\.number)).count }
    if namedFrames > 0 || tree != nil { identify(report, tree, isWhole: isWhole) }
  }

  // MARK: What hangs on names

  private mutating func identify(_ before: Report, _ tree: CallTree?, isWhole: Bool) {
    let evidence = before.verdict.evidence
    // A summary of stalls has no state, and has samples only of those that ran.
    let ran = evidence.state.map { $0 == "running" } ?? (tree != nil)
    let judged = stack.map { named in
      var frame = named.frame
      if named.isUnjudged { (frame.symbol, frame.isPending) = (nil, true) }
      return frame
    }
    let identity = StallIdentity(stack: judged, tree: all(tree, judged, isWhole: isWhole), ran: ran)
    let isCertain = identity.isFingerprintCertain && isWhole
    isTreeDone = tree != nil && isCertain && (identity.isPathCertain || before.event != .ended)

    let unnamed = Set(before.stack.filter { $0.symbol == nil }.map(\.name))
    let hadNoName = before.culprit.map { unnamed.contains($0.name) } ?? true
    if hadNoName, let culprit = identity.culprit {
      report.culprit = culprit
    } else if let frame = stack.first(where: { $0.isNew && $0.frame.symbol == before.culprit?.name }) {
      report.culprit = frame.frame
    }
    if isCertain {
      if hadNoName || tree != nil || before.fingerprint == nil { report.fingerprint = identity.fingerprint }
    } else if ran, report.culprit?.name != before.culprit?.name {
      // It was made of an address.
      report.fingerprint = nil
    }
    if before.event == .ended, hadNoName || tree != nil, identity.isPathCertain { report.path = identity.path }
  }

  /// All samples with their names; nil if they are not known.
  ///
  /// A frame without a file gets its name from the line's own stack, if it is there.
  private func all(_ tree: CallTree?, _ judged: [StackFrame], isWhole: Bool) -> CallTree? {
    guard let tree else {
      // One sample is all of them.
      guard report.samples <= 1, isWhole else { return nil }
      var tree = CallTree(samples: 1, weight: 1)
      _ = tree.add(judged, under: nil, weight: 1, samples: 1)
      return tree
    }
    var known: [Place: [StackFrame]] = [:]
    var inlined: [StackFrame] = []
    for frame in judged {
      inlined.append(frame)
      if frame.isInlined { continue }
      // One that nobody knows makes all frames of its address unknown.
      known[Place(frame)] = inlined.contains { $0.symbol == nil } ? nil : inlined
      inlined = []
    }
    return tree.named { frame in
      if let frames = known[Place(frame)] { return frames }
      let frames = frame.named(find(frame) ?? [], isExecutable: isExecutable(frame))
      known[Place(frame)] = frames
      return frames
    }.tree
  }

  /// What a frame is known by before it has names.
  private struct Place: Hashable {
    var module: String?
    var offset: UInt64?
    var isAsync: Bool

    init(_ frame: StackFrame) { (module, offset, isAsync) = (frame.module, frame.offset, frame.isAsync) }
  }

  // MARK: Frames

  private func frames(of stack: [StackFrame]) -> [NamedFrame] {
    var frames: [NamedFrame] = []
    var isInsideInlined = false
    for (number, frame) in stack.enumerated() {
      // What is inlined, and the function that it is in, had debug information when the line was made.
      let isWhole = frame.isInlined || isInsideInlined || (frame.symbol != nil && frame.file != nil)
      isInsideInlined = frame.isInlined
      if let names = isWhole ? nil : complete(frame) {
        frames += names.map { NamedFrame(frame: $0, number: number, isNew: true) }
      } else {
        frames.append(judge(frame, number))
      }
    }
    return frames
  }

  /// The frame with what it lacks, and the calls that were inlined; nil if nothing can be added.
  private func complete(_ frame: StackFrame) -> [StackFrame]? {
    guard let names = find(frame), let physical = names.last,
      frame.symbol == nil || physical.file != nil || names.count > 1
    else { return nil }
    return frame.named(names, isExecutable: isExecutable(frame)).map { named in
      guard !named.isInlined else { return named }
      var named = named
      if let symbol = frame.symbol { (named.symbol, named.shortSymbol) = (symbol, frame.shortSymbol) }
      if frame.file != nil { (named.file, named.line) = (frame.file, frame.line) }
      return named
    }
  }

  /// Whose code a frame is that came with its name: the linker's name says, which only the file has.
  private func judge(_ frame: StackFrame, _ number: Int) -> NamedFrame {
    var result = NamedFrame(frame: frame, number: number)
    let names = frame.symbol == nil ? nil : find(frame)
    if let name = frame.isInlined ? names?.first(where: { $0.inlined && $0.symbol == frame.symbol }) : names?.last {
      let known = frame.named([name], isExecutable: isExecutable(frame))[0]
      result.frame.owner = known.owner
      result.frame.isCompilerGenerated = known.isCompilerGenerated
      result.frame.isMerged = known.isMerged
      return result
    }
    // C: the name is the linker's. Otherwise only the module shows whether it is the system's or a
    // runtime's.
    let isC = frame.symbol.map {
      $0.utf8.allSatisfy { $0 == 0x5f || (0x30...0x39).contains($0) || (0x61...0x7a).contains($0 | 0x20) }
    }
    let plain = SymbolizedFrame(linkageName: isC == true ? frame.symbol : nil)
    result.frame.owner = frame.named([plain], isExecutable: isExecutable(frame))[0].owner
    // Only the module's file shows whether the library is linked in that has such names; the libraries have no source files.
    let mayBeLibrary =
      frame.file == nil
      && frame.symbol.map { LinkedLibrary.candidate(linkageName: $0, symbol: nil) != nil } == true
    result.isUnjudged = result.frame.owner == .host && (isC == false || mayBeLibrary)
    return result
  }

  private func isExecutable(_ frame: StackFrame) -> Bool {
    if let id = frame.buildID, let own = report.origin.executableBuildID { return id == own }
    return frame.module != nil && frame.module == report.origin.executablePath
  }

  private func find(_ frame: StackFrame) -> [SymbolizedFrame]? {
    guard let id = frame.buildID, let offset = frame.offset else { return nil }
    return lookup(id, frame.module, offset)
  }
}
