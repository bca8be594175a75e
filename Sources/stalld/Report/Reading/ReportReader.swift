import Dispatch
import Glibc
import Synchronization

/// Reads report lines from files into a ``ReportPass``, on as many threads as there are processors, four at most.
struct ReportReader {
  /// What was read, and the files with what could not be read.
  struct Outcome {
    var pass: ReportPass
    var inputs: InputFiles
  }

  var filter = ReportPass.Filter()
  var threads = min(4, max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

  func read(_ inputs: InputFiles) -> Outcome {
    let blocks = LineBlocks(inputs)
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
    let read = blocks.inputs
    whole.unreadable = read.failures
    return Outcome(pass: whole, inputs: read)
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

  /// Calls `body` with each line, without its newline and NULs before it; with nil for one that is too long.
  static func forEachLine(
    of blocks: LineBlocks, _ body: (UnsafeBufferPointer<UInt8>?, (file: String, index: Int, number: Int)) -> Void
  ) {
    let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 2 * LineBlocks.longestLine)
    defer { buffer.deallocate() }
    while let block = blocks.next(into: buffer) {
      let file = block.name == "-" ? "standard input" : block.name
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
        while position < end, base[position] == 0 { position += 1 }
        body(UnsafeBufferPointer(start: base + position, count: end - position), (file, block.file, number))
        position = end + 1
        number += 1
      }
    }
  }
}
