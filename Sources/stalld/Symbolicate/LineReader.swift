import Glibc

/// Reads a file's lines one after the other, in bounded memory.
///
/// It waits for the file, and returns a line that is too long in parts, so that all bytes are passed
/// on. ``LineSplitter`` is given bytes by an event loop and leaves such a line out.
struct LineReader: ~Copyable {
  enum Piece {
    /// A line without its newline, and whether it had one.
    case line([UInt8], isTerminated: Bool)
    /// A part of a line that is too long to be a report's; the last part ends with the newline.
    case part([UInt8], isFirst: Bool)

    var bytes: [UInt8] {
      switch self {
      case .line(let bytes, _), .part(let bytes, _): bytes
      }
    }
  }

  /// Much more than a report can have.
  static let longestLine = 64 << 10

  private let descriptor: Int32
  private var buffer: [UInt8] = []
  private var position = 0
  private var isInLongLine = false
  private var hasEnded = false

  /// Called before the reader waits for more.
  var willWait: () -> Void = {}

  /// Reads an open descriptor, which it closes at the end unless it is standard input.
  init(descriptor: Int32) { self.descriptor = descriptor }

  deinit { if descriptor > 2 { close(descriptor) } }

  /// The next piece, or nil at the end.
  ///
  /// Throws what read(2) says.
  mutating func next() throws -> Piece? {
    while true {
      let rest = buffer[position...]
      if let newline = rest.firstIndex(of: 0x0a) {
        defer { position = newline + 1 }
        if isInLongLine {
          isInLongLine = false
          return .part(Array(rest[...newline]), isFirst: false)
        }
        return .line(Array(rest[..<newline]), isTerminated: true)
      }
      if isInLongLine || rest.count > Self.longestLine || hasEnded {
        guard !rest.isEmpty else {
          if hasEnded { return nil }
          try fill()
          continue
        }
        defer { position = buffer.count }
        if hasEnded, !isInLongLine { return .line(Array(rest), isTerminated: false) }
        defer { isInLongLine = true }
        return .part(Array(rest), isFirst: !isInLongLine)
      }
      try fill()
    }
  }

  private mutating func fill() throws {
    buffer.removeFirst(position)
    position = 0
    willWait()
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    var count: Int
    repeat { count = read(descriptor, &chunk, chunk.count) } while count < 0 && errno == EINTR
    guard count >= 0 else { throw SystemError(code: errno) }
    if count == 0 { hasEnded = true }
    buffer += chunk[..<count]
  }
}
