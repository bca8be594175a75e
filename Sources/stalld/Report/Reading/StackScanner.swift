import StallReport

/// Reads the frames of a stack that ``ReportScanner`` has found to be JSON.
enum StackScanner {
  /// A frame's members, as bytes of the stack.
  struct Frame {
    var symbol = ReportScanner.Bytes()
    var file = ReportScanner.Bytes()
    var line = ReportScanner.Bytes()
    var module = ReportScanner.Bytes()
    var buildID = ReportScanner.Bytes()
    var offset = ReportScanner.Bytes()
    var isInlined = false
    var isAsync = false
  }

  /// The frames in the bytes of an array; what is no object is passed over.
  static func frames(_ bytes: UnsafeBufferPointer<UInt8>) -> [Frame] {
    var json = JSONScanner(bytes)
    var frames: [Frame] = []
    // The line has been found to be JSON: there is no fault to report.
    try? read(&json, bytes, &frames)
    return frames
  }

  private static func read(
    _ json: inout JSONScanner, _ bytes: UnsafeBufferPointer<UInt8>, _ frames: inout [Frame]
  ) throws(JSONScanner.Fault) {
    json.skipBlanks()
    guard json.current == UInt8(ascii: "["), try json.beginArray() else { return }
    repeat {
      if json.current == UInt8(ascii: "{") {
        frames.append(try Frame(&json, bytes))
      } else {
        try json.skipValue()
      }
    } while try json.nextElement()
  }
}

extension StackScanner.Frame {
  /// The object that a scanner is at.
  fileprivate init(_ json: inout JSONScanner, _ bytes: UnsafeBufferPointer<UInt8>) throws(JSONScanner.Fault) {
    guard try json.beginObject() else { return }
    repeat {
      let key = try json.key()
      let value = ReportScanner.Bytes(try json.value())
      if json.is(key, "symbol") { symbol = value }
      if json.is(key, "file") { file = value }
      if json.is(key, "line") { line = value }
      if json.is(key, "module") { module = value }
      if json.is(key, "build_id") { buildID = value }
      if json.is(key, "offset") { offset = value }
      let isTrue = value.range.count == 4 && bytes[value.range.lowerBound] == UInt8(ascii: "t")
      if json.is(key, "inlined") { isInlined = isTrue }
      if json.is(key, "async") { isAsync = isTrue }
    } while try json.nextMember()
  }
}
