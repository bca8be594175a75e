import DescriptorIO
import Glibc

/// An open file of lines, which may have several names, and how far it has been read.
final class FollowedFile {
  /// Why a file is not followed, although it could be opened.
  struct Unsuitable: Error, CustomStringConvertible {
    var description: String
  }

  enum Progress {
    /// There may be more.
    case more
    case end
    /// The file was truncated, or written again: its lines follow from the beginning.
    case truncated
    case failed(SystemError)
  }

  /// `SEEK_DATA`, which Swift does not import.
  private static let seekData: Int32 = 3
  private static let pieceSize = 64 << 10
  /// How much of what was read last is compared: the longest report, whose time is at its beginning.
  private static let markSize = 8 << 10

  /// The name under which it was opened.
  let path: String
  let descriptor: Int32
  let identity: FileIdentity
  /// The watch of its contents.
  var watch: FileWatches.Number?
  /// Whether a message says that it cannot be read.
  var hasFailed = false
  private var position = 0
  /// What is before `position`: if other bytes are there now, the file was truncated.
  private var mark: [UInt8] = []
  private var splitter = LineSplitter()
  private var search: Search?

  /// Where the search for the last lines is, from the end of the file to its beginning.
  private struct Search {
    var end: Int
    var linesLeft: Int
    var step = pieceSize
  }

  /// Opens a regular file.
  ///
  /// - Parameters:
  ///   - path: Its name.
  ///   - lines: How many of its lines to begin with; nil for all.
  /// - Throws: Why it is not followed: `SystemError`, `Unsuitable` or `InputAdvice.GzipInput`.
  init(_ path: String, last lines: Int?) throws {
    self.path = path
    // Before it is opened: that would be noticed by the writer of a pipe.
    try Self.checkType { stat(path, &$0) }
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw SystemError(code: errno) }
    var facts = stat()
    fstat(descriptor, &facts)
    identity = FileIdentity(facts)
    try Self.checkType { fstat(descriptor, &$0) }
    var beginning: [UInt8] = [0, 0]
    if pread(descriptor, &beginning, 2, 0) == 2, let error = InputAdvice.GzipInput(path, beginning, for: "tail") {
      throw error
    }
    if let lines { search = Search(end: Int(facts.st_size), linesLeft: lines) }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  private static func checkType(_ read: (inout stat) -> Int32) throws {
    var facts = stat()
    guard read(&facts) == 0 else { throw SystemError(code: errno) }
    switch facts.st_mode & S_IFMT {
    case S_IFREG: return
    case S_IFDIR: throw SystemError(code: EISDIR)
    default: throw Unsuitable(description: "it is not a regular file")
    }
  }

  private var facts: stat {
    var facts = stat()
    fstat(descriptor, &facts)
    return facts
  }

  var isEmpty: Bool { facts.st_size == 0 }

  /// Whether it has no name any more.
  var isDeleted: Bool { facts.st_nlink == 0 }

  /// What follows the last newline; nil if that is nothing.
  func takeRest() -> [UInt8]? { splitter.takeRest() }

  /// Reads a piece of what is new.
  ///
  /// `line` is called with each line that is whole now, without its newline; with nil for one that is too long.
  func readPiece(_ line: ([UInt8]?) -> Void) -> Progress {
    guard search == nil else {
      continueSearch()
      return .more
    }
    var buffer = [UInt8](repeating: 0, count: Self.pieceSize)
    let count = pread(descriptor, &buffer, buffer.count, position - mark.count)
    guard count >= 0 else { return errno == EINTR ? .more : .failed(SystemError(code: errno)) }
    guard count >= mark.count, memcmp(buffer, mark, mark.count) == 0 else {
      (position, mark) = (0, [])
      return .truncated
    }
    guard count > mark.count else { return .end }
    splitter.take(buffer[mark.count..<count], line)
    position += count - mark.count
    mark = Array(buffer[..<count].suffix(Self.markSize))
    if mark.last == 0, splitter.ignoresZeros { skipHole() }
    return .more
  }

  /// A hole in a file is read as NULs; terabytes of them take no time.
  private func skipHole() {
    var next = lseek(descriptor, position, Self.seekData)
    if next < 0, errno == ENXIO { next = lseek(descriptor, 0, SEEK_END) }
    if next > position { move(to: next) }
  }

  private func move(to place: Int) {
    let size = min(place, Self.markSize)
    mark = [UInt8](repeating: 0, count: size)
    position = pread(descriptor, &mark, size, place - size) == size ? place : 0
    if position == 0 { mark = [] }
  }

  /// Searches a piece for the beginning of the last lines; a line without an end is not counted.
  private func continueSearch() {
    guard var search else { return }
    self.search = nil
    guard search.end > 0 else { return move(to: 0) }
    let start = max(0, search.end - search.step)
    let data = lseek(descriptor, start, Self.seekData)
    if data < 0 && errno == ENXIO || data >= search.end {
      // A hole: there is no newline in it.
      search.end = start
      search.step = min(2 * search.step, 1 << 60)
    } else if search.step > Self.pieceSize {
      search.step = Self.pieceSize
    } else {
      var buffer = [UInt8](repeating: 0, count: search.end - start)
      // It was truncated meanwhile: all that is there now is new.
      guard pread(descriptor, &buffer, buffer.count, start) == buffer.count else { return move(to: 0) }
      var end = buffer.count
      while let newline = buffer[..<end].lastIndex(of: 0x0a) {
        if search.linesLeft == 0 { return move(to: start + newline + 1) }
        search.linesLeft -= 1
        end = newline
      }
      search.end = start
    }
    self.search = search
  }
}
