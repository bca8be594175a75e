/// Cuts a stream of bytes into lines, in bounded memory.
///
/// For bytes that an event loop reads: see ``LineReader`` for a file that is waited for.
///
/// NULs before a line are no part of it. A writer that continues at its old place in a file that was truncated leaves them
/// there (`copytruncate` without `O_APPEND`).
struct LineSplitter {
  static let longestLine = LineReader.longestLine

  private var rest: [UInt8] = []
  private var isInLongLine = false
  /// Whether NULs that come next change nothing.
  var ignoresZeros: Bool { rest.isEmpty || isInLongLine }

  /// Takes the next bytes, and hands out the lines that are whole now, without their newline; nil for one that is too
  /// long.
  mutating func take(_ bytes: ArraySlice<UInt8>, _ line: ([UInt8]?) -> Void) {
    var bytes = bytes
    while !bytes.isEmpty {
      if rest.isEmpty { bytes = bytes.drop { $0 == 0 } }
      let newline = bytes.firstIndex(of: 0x0a)
      if !isInLongLine {
        rest += bytes[..<(newline ?? bytes.endIndex)]
        if rest.count > Self.longestLine {
          isInLongLine = true
          rest = []
          line(nil)
        }
      }
      guard let newline else { return }
      if !isInLongLine { line(rest) }
      isInLongLine = false
      rest = []
      bytes = bytes[(newline + 1)...]
    }
  }

  /// What is left at the end of the stream; nil if that was a newline.
  mutating func takeRest() -> [UInt8]? {
    defer {
      rest = []
      isInLongLine = false
    }
    return rest.isEmpty ? nil : rest
  }
}
