import StallReport

/// Attributes of OTLP in JSON: a list of `KeyValue` messages.
///
/// Whole numbers are texts there, as protobuf's JSON has 64-bit integers.
struct OTLPAttributes {
  /// The messages, as the elements of an array.
  private(set) var messages = JSONWriter()
  private let text: JSONText

  init(_ text: JSONText) { self.text = text }

  mutating func add(_ key: String, _ value: String) {
    append(key) { $0.member("stringValue", value) }
  }

  /// Adds a value of the report.
  ///
  /// With `asInteger` a text that is a whole number becomes one.
  mutating func add(_ key: String, _ value: JSONText.Value, asInteger: Bool = false) {
    let text = text
    if asInteger, let number = text.string(value).flatMap({ Int64($0) }) {
      append(key) { $0.member("intValue", String(number)) }
    } else {
      append(key) { Self.write(value, of: text, key: key, to: &$0) }
    }
  }

  private mutating func append(_ key: String, _ value: (inout JSONWriter) -> Void) {
    messages.object {
      $0.member("key", key)
      $0.object("value", required: true, value)
    }
  }

  /// Whether a key's numbers are fractions, also those that are written as whole numbers.
  static func isFraction(_ key: String) -> Bool { key.hasSuffix("_ms") || key.hasSuffix("share") }

  /// Writes the member of an `AnyValue` message.
  private static func write(_ value: JSONText.Value, of text: JSONText, key: String, to message: inout JSONWriter) {
    switch value {
    case .string: message.member("stringValue", text.string(value) ?? "")
    case .literal(let range):
      write(literal: String(decoding: text.bytes[range], as: UTF8.self), key: key, to: &message)
    case .array(let elements, _):
      message.object("arrayValue") { array in
        array.key("values")
        array.array(elements) { values, element in
          values.object { write(element, of: text, key: key, to: &$0) }
        }
      }
    case .object(let members, _):
      var inner = OTLPAttributes(text)
      for member in members { inner.add(member.key, member.value) }
      message.object("kvlistValue") { $0.member("values", array: inner.messages) }
    }
  }

  private static func write(literal number: String, key: String, to message: inout JSONWriter) {
    switch number {
    case "true", "false": message.member("boolValue", bool: number == "true")
    case "null": break
    default:
      // By its key, and not by how it is written: a shipper may have made 250 of 250.000.
      if Int64(number) != nil, !isFraction(key) {
        message.member("intValue", number)
      } else if Double(number)?.isFinite == true {
        message.key("doubleValue")
        message.written(number.utf8)
      } else {
        // Beyond what a Double holds protobuf's readers refuse the whole message.
        message.member("stringValue", number)
      }
    }
  }
}
