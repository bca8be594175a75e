import Foundation
import Testing

/// A line that was written, read as a consumer would.
struct WrittenLine {
  /// Without the newline.
  let text: String
  let object: [String: Any]

  init(_ text: some StringProtocol) throws {
    self.text = String(text)
    object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  /// The lines of a text, but for those that tell that a whole process stood still.
  ///
  /// They are about no stall of a host's: a virtual machine that gets no processor writes one into any test.
  static func lines(in text: String) -> [String] {
    let lines = text.split(separator: "\n").map(String.init)
    let stopped = #""cause":"stopped""#
    // Most texts have none, and some are long.
    guard strstr(text, stopped) != nil else { return lines }
    // A stall in which the loop's thread was met as stopped has samples.
    return lines.filter { !$0.contains(stopped) || !$0.contains(#""samples":0"#) }
  }

  /// The same, read.
  static func all(in text: String) throws -> [WrittenLine] { try lines(in: text).map(WrittenLine.init(_:)) }

  subscript(_ path: String...) -> Any? {
    var value: Any? = object
    for key in path { value = (value as? [String: Any])?[key] }
    return value
  }

  /// With the newline.
  var bytes: Int { text.utf8.count + 1 }
  var event: String { self["event", "name"] as? String ?? "" }
  var id: String { self["stall", "id"] as? String ?? "" }
  /// In milliseconds.
  var duration: Double { self["stall", "duration_ms"] as? Double ?? 0 }
  var culprit: String { self["stall", "culprit"] as? String ?? "" }
  var fingerprint: String? { self["stall", "fingerprint"] as? String }
  var stack: [[String: Any]] { object["stack"] as? [[String: Any]] ?? [] }
  var culpritFrame: [String: Any]? { stack.first { $0["symbol"] as? String == culprit } }
  /// Where the message says that its function is: the compiler's own instructions have a file and no line.
  var culpritPlace: String {
    let file = (culpritFrame?["file"] as? String)?.split(separator: "/").last.map(String.init) ?? "no file"
    return (culpritFrame?["line"] as? Int).map { "\(file):\($0)" } ?? file
  }
  /// Whether the stall was over, or its process.
  var isEnd: Bool { event == "stall.ended" || event == "stall.fatal" }
}

/// Which lines are about the stall that a test has made: on a busy machine a turn that waits for a processor is one, too.
extension [WrittenLine] {
  /// The end of the longest stall.
  var longestEnd: WrittenLine? { filter { $0.event == "stall.ended" }.max { $0.duration < $1.duration } }

  /// All of the first stall that is in this function.
  func ofStall(in function: String) -> [WrittenLine] {
    guard let id = first(where: { $0.culprit.contains(function) })?.id else { return [] }
    return filter { $0.id == id }
  }
}
