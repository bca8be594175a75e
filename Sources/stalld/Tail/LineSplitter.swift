/// Cuts a stream of bytes into lines, in bounded memory.
///
/// For bytes that an event loop reads: see ``LineReader`` for a file that is waited for.
struct LineSplitter {
  static let longestLine = LineReader.longestLine

  private var rest: [UInt8] = []
  private var isInLongLine = false
  /// Lines that were longer, and are left out.
  private(set) var skipped = 0

  /// Takes the next bytes, and hands out the lines that are whole now, without their newline.
  mutating func take(_ bytes: ArraySlice<UInt8>, _ line: ([UInt8]) -> Void) {
    var bytes = bytes
    while let newline = bytes.firstIndex(of: 0x0a) {
      let part = bytes[..<newline]
      if isInLongLine {
        isInLongLine = false
      } else if rest.count + part.count > Self.longestLine {
        skipped += 1
        rest = []
      } else {
        line(rest + part)
        rest = []
      }
      bytes = bytes[(newline + 1)...]
    }
    guard !isInLongLine else { return }
    rest += bytes
    if rest.count > Self.longestLine {
      isInLongLine = true
      skipped += 1
      rest = []
    }
  }

  /// What is left at the end of the stream; nil if that was a newline.
  mutating func takeRest() -> [UInt8]? {
    defer {
      rest = []
      isInLongLine = false
    }
    return rest.isEmpty || isInLongLine ? nil : rest
  }
}
