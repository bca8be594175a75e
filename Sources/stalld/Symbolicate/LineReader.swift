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

  private let input: InputFiles.Input
  private var buffer: [UInt8] = []
  private var position = 0
  private var isInLongLine = false
  private var endsWithNULs = false
  private var hasEnded = false

  /// Called before the reader waits for more.
  var willWait: () -> Void = {}

  /// Reads an open file, which it closes at the end.
  init(_ input: InputFiles.Input) { self.input = input }

  deinit { close(input.descriptor) }

  /// The next piece, or nil at the end.
  ///
  /// NULs before a line are no part of it, as ``LineSplitter`` has them.
  mutating func next() throws -> Piece? {
    while true {
      while !isInLongLine, position < buffer.count, buffer[position] == 0 {
        position += 1
        endsWithNULs = position == buffer.count
      }
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
          if hasEnded, endsWithNULs { throw InputFiles.Input.Fault.nulBytes }
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
    let count = try chunk.withUnsafeMutableBytes { try input.read(into: $0) }
    hasEnded = count == 0
    if count > 0 { endsWithNULs = false }
    buffer += chunk[..<count]
  }
}
