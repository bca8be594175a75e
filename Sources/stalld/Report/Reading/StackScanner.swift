import Glibc

/// Reads the frames of a stack that ``ReportScanner`` has found to be JSON.
struct StackScanner {
  /// A frame's members, as bytes of the stack.
  struct Frame {
    var symbol = ReportScanner.Bytes()
    var file = ReportScanner.Bytes()
    var line = ReportScanner.Bytes()
    var module = ReportScanner.Bytes()
    var buildID = ReportScanner.Bytes()
    var offset = ReportScanner.Bytes()
    var isInlined = false
  }

  private let bytes: UnsafeBufferPointer<UInt8>
  private var position = 0

  /// The frames in the bytes of an array; what is no object is passed over.
  static func frames(_ bytes: UnsafeBufferPointer<UInt8>) -> [Frame] {
    var scanner = StackScanner(bytes: bytes)
    var frames: [Frame] = []
    guard scanner.take(UInt8(ascii: "[")) else { return [] }
    while scanner.position < bytes.count {
      scanner.skipBlanks()
      if scanner.current == UInt8(ascii: "{") { frames.append(scanner.frame()) } else { _ = scanner.value() }
      scanner.skipBlanks()
      guard scanner.take(UInt8(ascii: ",")) else { break }
    }
    return frames
  }

  private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  private var current: UInt8 { position < bytes.count ? bytes[position] : 0 }

  private mutating func skipBlanks() { while position < bytes.count, bytes[position] <= 0x20 { position += 1 } }

  private mutating func take(_ byte: UInt8) -> Bool {
    skipBlanks()
    guard current == byte else { return false }
    position += 1
    return true
  }

  private mutating func frame() -> Frame {
    var frame = Frame()
    position += 1
    while current != 0, !take(UInt8(ascii: "}")) {
      skipBlanks()
      let key = value()
      guard take(UInt8(ascii: ":")) else { break }
      let value = value()
      note(key, value, &frame)
      if !take(UInt8(ascii: ",")) {
        _ = take(UInt8(ascii: "}"))
        break
      }
    }
    return frame
  }

  private func note(_ key: ReportScanner.Bytes, _ value: ReportScanner.Bytes, _ frame: inout Frame) {
    let length = key.range.count
    func `is`(_ word: StaticString) -> Bool {
      length == word.utf8CodeUnitCount && memcmp(bytes.baseAddress! + Int(key.start), word.utf8Start, length) == 0
    }
    if `is`("symbol") { frame.symbol = value }
    if `is`("file") { frame.file = value }
    if `is`("line") { frame.line = value }
    if `is`("module") { frame.module = value }
    if `is`("build_id") { frame.buildID = value }
    if `is`("offset") { frame.offset = value }
    if `is`("inlined") { frame.isInlined = value.range.count == 4 && bytes[Int(value.start)] == UInt8(ascii: "t") }
  }

  /// Passes over any value, and says where it is.
  private mutating func value() -> ReportScanner.Bytes {
    skipBlanks()
    let start = position
    guard current == UInt8(ascii: "\"") else {
      skipOther()
      return ReportScanner.Bytes(start: Int32(start), end: Int32(position))
    }
    var hasEscapes = false
    position += 1
    while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
      if bytes[position] == UInt8(ascii: "\\") {
        hasEscapes = true
        position += 1
      }
      position += 1
    }
    position = min(position + 1, bytes.count)
    return ReportScanner.Bytes(
      start: Int32(start + 1), end: Int32(max(start + 1, position - 1)), hasEscapes: hasEscapes)
  }

  /// An object, an array, or a literal up to what ends it.
  private mutating func skipOther() {
    var depth = 0
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        if depth == 0 { return }
        depth -= 1
      case UInt8(ascii: ","), UInt8(ascii: ":"): if depth == 0 { return }
      case UInt8(ascii: "\"") where depth > 0:
        _ = value()
        continue
      default: break
      }
      position += 1
      if depth == 0, position < bytes.count,
        bytes[position - 1] == UInt8(ascii: "}") || bytes[position - 1] == UInt8(ascii: "]")
      {
        return
      }
    }
  }
}
