import StallMonitor
import StallReport

/// Attributes of OTLP in JSON, as a list of `KeyValue` messages without its brackets.
///
/// Whole numbers are texts there, as protobuf's JSON has 64-bit integers.
struct OTLPAttributes {
  private(set) var bytes: [UInt8] = []
  private let text: JSONText

  init(_ text: JSONText) { self.text = text }

  mutating func add(_ key: String, _ value: String) {
    begin(key)
    bytes += #"{"stringValue":"#.utf8 + JSONWriter.quoted(value) + "}}".utf8
  }

  /// Adds a value of the report.
  ///
  /// With `asInteger` a text that is a whole number becomes one.
  mutating func add(_ key: String, _ value: JSONText.Value, asInteger: Bool = false) {
    begin(key)
    if asInteger, let text = text.string(value), let number = Int64(text) {
      bytes += #"{"intValue":"\#(number)"}"#.utf8
    } else {
      append(value, key: key)
    }
    bytes.append(UInt8(ascii: "}"))
  }

  private mutating func begin(_ key: String) {
    if !bytes.isEmpty { bytes.append(UInt8(ascii: ",")) }
    bytes += #"{"key":"#.utf8 + JSONWriter.quoted(key) + #","value":"#.utf8
  }

  /// Appends an `AnyValue` message.
  private mutating func append(_ value: JSONText.Value, key: String) {
    switch value {
    case .string: bytes += #"{"stringValue":"#.utf8 + JSONWriter.quoted(text.string(value) ?? "") + "}".utf8
    case .literal(let range): appendLiteral(text.bytes[range], key: key)
    case .array(let elements, _):
      bytes += #"{"arrayValue":{"values":["#.utf8
      for (index, element) in elements.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        append(element, key: key)
      }
      bytes += "]}}".utf8
    case .object(let members, _):
      var inner = OTLPAttributes(text)
      for member in members { inner.add(member.key, member.value) }
      bytes += #"{"kvlistValue":{"values":["#.utf8 + inner.bytes + "]}}".utf8
    }
  }

  private mutating func appendLiteral(_ literal: ArraySlice<UInt8>, key: String) {
    let number = String(decoding: literal, as: UTF8.self)
    switch number {
    case "true", "false": bytes += #"{"boolValue":\#(number)}"#.utf8
    case "null": bytes += "{}".utf8
    default:
      // By its key, and not by how it is written: a shipper may have made 250 of 250.000.
      if let integer = Int64(number), !key.hasSuffix("_ms"), !key.hasSuffix("share") {
        bytes += #"{"intValue":"\#(integer)"}"#.utf8
      } else {
        // Beyond what a Double holds protobuf's readers refuse the whole message.
        let isHeld = Double(number)?.isFinite ?? false
        bytes += isHeld ? #"{"doubleValue":\#(number)}"#.utf8 : #"{"stringValue":"\#(number)"}"#.utf8
      }
    }
  }
}
