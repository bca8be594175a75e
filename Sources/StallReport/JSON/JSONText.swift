/// A JSON text (RFC 8259) as a tree of what is where in it, so that a part can be replaced and the rest stays as it is written.
///
/// For messages, and for reports that are changed; ``JSONScanner`` reads without allocating. Numbers are not read as numbers: `1.50` stays
/// `1.50`. Strings need not be UTF-8.
package struct JSONText {
  package typealias Fault = JSONScanner.Fault

  /// A value, and the bytes that it takes.
  package indirect enum Value {
    case object([(key: String, member: Range<Int>, value: Value)], Range<Int>)
    case array([Value], Range<Int>)
    case string(Range<Int>)
    /// A number, `true`, `false` or `null`.
    case literal(Range<Int>)

    package var range: Range<Int> {
      switch self {
      case .object(_, let range), .array(_, let range), .string(let range), .literal(let range): range
      }
    }

    /// The member's value, or nil if this is no object or has none.
    package subscript(_ key: String) -> Value? {
      guard case .object(let members, _) = self else { return nil }
      return members.first { $0.key == key }?.value
    }

    package var elements: [Value]? {
      guard case .array(let elements, _) = self else { return nil }
      return elements
    }
  }

  package let bytes: [UInt8]
  package private(set) var root: Value

  /// Reads the text.
  ///
  /// Throws ``JSONScanner/Fault`` where it is not one JSON value, or nested too deep.
  package init(_ bytes: [UInt8]) throws(Fault) {
    self.bytes = bytes
    root = try bytes.withUnsafeBufferPointer { (buffer) throws(Fault) -> Value in
      var json = JSONScanner(buffer, requiresUTF8: false)
      let root = try Self.value(&json, buffer)
      try json.end()
      return root
    }
  }

  private static func value(_ json: inout JSONScanner, _ bytes: UnsafeBufferPointer<UInt8>) throws(Fault) -> Value {
    let start = try json.beginValue()
    switch json.current {
    case UInt8(ascii: "{"):
      var members: [(key: String, member: Range<Int>, value: Value)] = []
      if try json.beginObject() {
        repeat {
          let key = try json.key()
          let value = try value(&json, bytes)
          let name = JSONValues.string(UnsafeBufferPointer(rebasing: bytes[key.range]))
          members.append((name, (key.start - 1)..<value.range.upperBound, value))
        } while try json.nextMember()
      }
      return .object(members, start..<json.position)
    case UInt8(ascii: "["):
      var elements: [Value] = []
      if try json.beginArray() {
        repeat { elements.append(try value(&json, bytes)) } while try json.nextElement()
      }
      return .array(elements, start..<json.position)
    case UInt8(ascii: "\""):
      try json.skipScalar()
      return .string(start..<json.position)
    default:
      try json.skipScalar()
      return .literal(start..<json.position)
    }
  }

  // MARK: Values

  /// The text of a string value; nil for every other.
  package func string(_ value: Value?) -> String? {
    guard case .string(let range) = value else { return nil }
    return bytes.withUnsafeBufferPointer {
      JSONValues.string(UnsafeBufferPointer(rebasing: $0[(range.lowerBound + 1)..<(range.upperBound - 1)]))
    }
  }

  package func isTrue(_ value: Value?) -> Bool {
    boolean(value) == true
  }

  /// The value of `true` or `false`; nil for every other.
  package func boolean(_ value: Value?) -> Bool? {
    guard case .literal(let range) = value else { return nil }
    if bytes[range].elementsEqual("true".utf8) { return true }
    return bytes[range].elementsEqual("false".utf8) ? false : nil
  }

  package func integer(_ value: Value?) -> Int? {
    guard case .literal(let range) = value else { return nil }
    return Int(String(decoding: bytes[range], as: UTF8.self))
  }

  package func number(_ value: Value?) -> Double? {
    guard case .literal(let range) = value else { return nil }
    return Double(String(decoding: bytes[range], as: UTF8.self))
  }
}
