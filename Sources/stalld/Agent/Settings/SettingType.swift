import DescriptorIO
import Glibc
import StallReport

/// A kind of value: how it is read and written, and the description of the allowed values.
struct SettingType<Value: Sendable>: Sendable {
  var allowed: String
  /// Nil if the text is not allowed.
  var parse: @Sendable (String) -> Value?
  var text: @Sendable (Value) -> String

  /// The same, or the word `off`.
  var orOff: SettingType<Value?> {
    SettingType<Value?>(
      allowed: allowed + "; or off",
      parse: { [parse] text in text == "off" ? .some(nil) : parse(text).map { .some($0) } },
      text: { [text] value in value.map(text) ?? "off" })
  }

  /// The same for a key that need not be there, and then has no value.
  var optional: SettingType<Value?> {
    SettingType<Value?>(
      allowed: allowed, parse: { [parse] in parse($0).map { .some($0) } }, text: { [text] in $0.map(text) ?? "" })
  }
}

extension SettingType where Value == Bool {
  static let bool = SettingType(
    allowed: "true or false",
    parse: BooleanText.parse, text: { "\($0)" })
}

extension SettingType where Value == Int {
  static func count(_ range: ClosedRange<Int>) -> SettingType {
    SettingType(
      allowed: "a whole number from \(range.lowerBound) to \(range.upperBound)",
      parse: { text in
        guard let value = Int(text), range.contains(value) else { return nil }
        return value
      }, text: { "\($0)" })
  }

  static func size(_ range: ClosedRange<Int>) -> SettingType {
    SettingType(
      allowed: "a size from \(ByteSize.text(range.lowerBound)) to \(ByteSize.text(range.upperBound)), with its unit "
        + "(B, kB, KiB, MB, MiB, GB, GiB, TB, TiB)",
      parse: { text in ByteSize.parse(text).flatMap { range.contains($0) ? $0 : nil } }, text: ByteSize.text)
  }
}

extension SettingType where Value == Duration {
  static func time(_ range: ClosedRange<Duration>) -> SettingType {
    SettingType(
      allowed: "a time from \(DurationText.text(range.lowerBound)) to \(DurationText.text(range.upperBound)), "
        + "with its unit (\(DurationText.unitNames))",
      parse: { text in DurationText.parse(text).flatMap { range.contains($0) ? $0 : nil } }, text: DurationText.text)
  }
}

extension SettingType where Value == UInt32 {
  /// The permissions of a file.
  static let mode = SettingType(
    allowed: "a 0 and three octal digits, such as \"0640\"",
    parse: { text in
      guard text.utf8.count == 4, text.first == "0" else { return nil }
      return UInt32(text, radix: 8)
    }, text: { "0" + String(repeating: "0", count: max(0, 3 - String($0, radix: 8).count)) + String($0, radix: 8) })
}

extension SettingType where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
  static var choice: SettingType {
    SettingType(
      allowed: Value.allCases.map(\.rawValue).joined(separator: ", "), parse: Value.init(rawValue:), text: \.rawValue)
  }
}

extension SettingType where Value == AgentSettings.Account {
  static let user = SettingType(
    allowed: "the name or number of a user of this machine", parse: { parse($0, AccountDatabase.user) },
    text: \.name)
  static let group = SettingType(
    allowed: "the name or number of a group of this machine", parse: { parse($0, AccountDatabase.group) },
    text: \.name)

  private static func parse(_ text: String, _ look: (String) -> UInt32?) -> AgentSettings.Account? {
    // The last number is the kernel's "none".
    if let id = UInt32(text), id != .max { return AgentSettings.Account(name: text, id: id) }
    return look(text).map { AgentSettings.Account(name: text, id: $0) }
  }
}

extension SettingType where Value == String {
  static let path = SettingType(
    allowed: "an absolute path without //, . and .. parts", parse: { isPath($0) ? $0 : nil }, text: { $0 })

  static let socketPath = SettingType(
    allowed: "an absolute path of at most \(SocketAddress.longestPath) bytes, without //, . and .. parts",
    parse: { isSocketPath($0) ? $0 : nil },
    text: { $0 })

  /// node_exporter reads no others.
  static let textfile = SettingType(
    allowed: "an absolute path that ends in .prom, without //, . and .. parts",
    parse: { isPath($0) && $0.hasSuffix(".prom") ? $0 : nil },
    text: { $0 })

  static let glob = SettingType(
    allowed: "a glob of at most 255 bytes with *, ? and [a-z], such as web*",
    parse: { text in
      let isBalanced = text.count { $0 == "[" } <= text.count { $0 == "]" }
      return !text.isEmpty && text.utf8.count <= 255 && isBalanced && !text.contains("/") ? text : nil
    }, text: { $0 })

  /// Whether a text is an absolute path in its only spelling, so that equal paths are equal texts.
  static func isPath(_ text: String) -> Bool {
    let parts = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    return text.hasPrefix("/") && !parts.contains { ["", ".", ".."].contains($0) } && text.utf8.count < Int(PATH_MAX)
      && !text.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7f }
  }

  static func isSocketPath(_ text: String) -> Bool { isPath(text) && text.utf8.count <= SocketAddress.longestPath }
}
