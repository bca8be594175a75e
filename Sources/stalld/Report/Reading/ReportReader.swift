import Dispatch
import Glibc
import Synchronization

/// Reads report lines from files into a ``ReportPass``, on as many threads as there are processors, four at most.
struct ReportReader {
  /// What was read, and what could not be.
  struct Outcome {
    var pass: ReportPass
    var failures: [LineBlocks.Failure]
    /// Files that could be opened.
    var opened: Int
  }

  var filter = ReportPass.Filter()
  var threads = min(4, max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

  /// Reads files; a name that is no file is a pattern as of glob(7), and `-` is standard input.
  func read(_ files: [String]) -> Outcome {
    let (names, failures) = Self.expand(files)
    let blocks = LineBlocks(names)
    let filter = filter
    let passes = Mutex<[ReportPass]>([])
    DispatchQueue.concurrentPerform(iterations: threads) { _ in
      let pass = Self.run(blocks, filter)
      passes.withLock { $0.append(pass) }
    }
    var all = passes.withLock { passes in
      defer { passes = [] }
      return passes
    }
    var whole = all.removeLast()
    while !all.isEmpty { whole.merge(all.removeLast()) }
    let outcome = blocks.outcome
    return Outcome(pass: whole, failures: failures + outcome.failures, opened: outcome.opened)
  }

  private static func run(_ blocks: LineBlocks, _ filter: ReportPass.Filter) -> ReportPass {
    var pass = ReportPass(filter)
    forEachLine(of: blocks) { line, place in
      if let line {
        pass.read(line, file: place.file, fileIndex: place.index, number: place.number)
      } else {
        pass.skipLongLine(file: place.file, fileIndex: place.index, number: place.number)
      }
    }
    return pass
  }

  /// Calls `body` with each line, without its newline; with nil for one that is too long.
  static func forEachLine(
    of blocks: LineBlocks, _ body: (UnsafeBufferPointer<UInt8>?, (file: String, index: Int, number: Int)) -> Void
  ) {
    let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 2 * LineBlocks.longestLine)
    defer { buffer.deallocate() }
    while let block = blocks.next(into: buffer) {
      let file = blocks.files[block.file] == "-" ? "standard input" : blocks.files[block.file]
      if block.isLongLine {
        body(nil, (file, block.file, block.firstLine))
        continue
      }
      guard let base = UnsafePointer(buffer.baseAddress) else { break }
      var position = 0
      var number = block.firstLine
      while position < block.count {
        let newline = memchr(base + position, 0x0a, block.count - position)
        let end = newline.map { UnsafePointer($0.assumingMemoryBound(to: UInt8.self)) - base } ?? block.count
        body(UnsafeBufferPointer(start: base + position, count: end - position), (file, block.file, number))
        position = end + 1
        number += 1
      }
    }
  }

  /// The names of files, and the patterns that no file matches.
  static func expand(_ files: [String]) -> (names: [String], failures: [LineBlocks.Failure]) {
    var names: [String] = []
    var failures: [LineBlocks.Failure] = []
    for file in files {
      if let found = expand(file) {
        names += found
      } else {
        failures.append(LineBlocks.Failure(file: file, reason: "no file matches this pattern; check it with ls"))
      }
    }
    return (names, failures)
  }

  /// The files that a pattern matches, in the order of their names; nil without any.
  ///
  /// A name that exists, or has no pattern, is used unchanged.
  private static func expand(_ name: String) -> [String]? {
    guard name != "-", access(name, F_OK) != 0, name.contains(where: { "*?[".contains($0) }) else { return [name] }
    var found = glob_t()
    defer { globfree(&found) }
    guard glob(name, 0, nil, &found) == 0 else { return nil }
    return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
  }
}
