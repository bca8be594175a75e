import DescriptorIO
import Glibc
import LoopEngine
import StallCapture

/// Follows a file of lines, also when it is renamed and created again, or truncated.
final class FileFollower: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  private let path: String
  private let handle: ([UInt8]) -> Void
  private let didFail: (SystemError) -> Void
  private var descriptor: Int32
  private var splitter = LineSplitter()
  private var position = 0
  private var source: Loop.FileChangeSource?
  private var buffer = [UInt8](repeating: 0, count: 64 << 10)

  /// Begins with the last lines of what is there.
  ///
  /// - Parameters:
  ///   - path: A regular file's.
  ///   - descriptor: Open on it; this closes it.
  ///   - lines: How many of its lines to begin with.
  ///   - loop: The calling thread's.
  ///   - didFail: Called when the file cannot be read.
  ///   - handle: Called with each line, without its newline.
  /// - Throws: `LoopError` if its directory can't be watched.
  init(
    path: String, descriptor: Int32, lines: Int, loop: Loop, didFail: @escaping (SystemError) -> Void,
    handle: @escaping ([UInt8]) -> Void
  ) throws {
    self.path = path
    self.descriptor = descriptor
    self.handle = handle
    self.didFail = didFail
    // The directory, for a file that is replaced is another file; of a link, the directory that the file is in.
    let real = realpath(path, nil).map { pointer in
      defer { free(pointer) }
      return String(cString: pointer)
    }
    let place = PathParts(real ?? path)
    let source = try Loop.FileChangeSource(
      place.directory, for: [.modified, .created, .movedTo, .deleted], name: "followed file"
    ) { [weak self] _, entry in
      if entry == nil || entry == place.name { self?.look() }
    }
    self.source = source
    try loop.add(source)
    position = startOfLast(lines)
  }

  deinit {
    source?.invalidate()
    close(descriptor)
  }

  /// Lines that were too long, or that their file ended in.
  private(set) var brokenLines = 0

  /// Takes what is new.
  func look() {
    while true {
      readToEnd()
      var own = stat()
      guard fstat(descriptor, &own) == 0 else { return }
      if own.st_size < position {
        position = 0
        endOfFile()
        continue
      }
      guard let named = FileIdentity(path: path, followingLinks: true), named != FileIdentity(own) else { return }
      let next = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
      guard next >= 0 else { return }
      // The writer may have written to the old one until now.
      readToEnd()
      endOfFile()
      close(descriptor)
      descriptor = next
      position = 0
    }
  }

  private func endOfFile() {
    if splitter.takeRest() != nil { brokenLines += 1 }
  }

  private func readToEnd() {
    while true {
      let count = pread(descriptor, &buffer, buffer.count, position)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        if count < 0 { didFail(SystemError(code: errno)) }
        return
      }
      position += count
      let skipped = splitter.skipped
      splitter.take(buffer[..<count], handle)
      brokenLines += splitter.skipped - skipped
    }
  }

  /// Where the last lines begin; a line without an end is not counted.
  private func startOfLast(_ lines: Int) -> Int {
    var facts = stat()
    guard fstat(descriptor, &facts) == 0 else { return 0 }
    var end = Int(facts.st_size)
    var newlines = 0
    var lastNewline: Int?
    while end > 0 {
      let start = max(0, end - buffer.count)
      let count = pread(descriptor, &buffer, end - start, start)
      guard count == end - start else { return end }
      for index in (0..<count).reversed() where buffer[index] == 0x0a {
        if lastNewline == nil { lastNewline = start + index }
        newlines += 1
        if newlines > lines { return start + index + 1 }
      }
      end = start
    }
    return 0
  }
}
