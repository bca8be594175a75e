import Foundation
import Testing

/// A report line that was written, read as a consumer reads it.
public struct WrittenReport: @unchecked Sendable {  // Property-list values, never changed.
  /// The line without its newline.
  public let text: String
  /// The line's members.
  public let object: [String: Any]

  /// Reads a line.
  public init(_ text: some StringProtocol) throws {
    self.text = String(text)
    object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  /// Reads a line.
  public init(_ line: Data) throws { try self.init(String(decoding: line, as: UTF8.self)) }

  /// The lines of a text, without those that report that a whole process was stopped.
  ///
  /// A virtual machine that gets no processor writes such a line into any test.
  public static func lines(in text: String) -> [String] {
    let lines = text.split(separator: "\n").map(String.init)
    let stopped = #""cause":"stopped""#
    // Most texts have none, and some are long.
    guard strstr(text, stopped) != nil else { return lines }
    // A stall in which the loop's thread was met as stopped has samples.
    return lines.filter { !$0.contains(stopped) || !$0.contains(#""samples":0"#) }
  }

  /// The same, read.
  public static func all(in text: String) throws -> [WrittenReport] {
    try lines(in: text).map { try WrittenReport($0) }
  }

  /// The value at a path of member names.
  public subscript(_ path: String...) -> Any? {
    var value: Any? = object
    for key in path { value = (value as? [String: Any])?[key] }
    return value
  }

  /// The length of the line, with its newline.
  public var bytes: Int { text.utf8.count + 1 }
  /// `stall.started` and so on.
  public var event: String { self["event", "name"] as? String ?? "" }
  /// The stall's.
  public var id: String { self["stall", "id"] as? String ?? "" }
  /// The loop's name.
  public var loop: String { self["loop", "name"] as? String ?? "" }
  /// The responsible function.
  public var culprit: String { self["stall", "culprit"] as? String ?? "" }
  /// The stall's cause.
  public var cause: String { self["stall", "cause"] as? String ?? "" }
  /// In milliseconds.
  public var duration: Double { self["stall", "duration_ms"] as? Double ?? 0 }
  /// What equal stalls have in common.
  public var fingerprint: String? { self["stall", "fingerprint"] as? String }
  /// The frames, innermost first.
  public var stack: [[String: Any]] { object["stack"] as? [[String: Any]] ?? [] }
  /// The frame of the responsible function.
  public var culpritFrame: [String: Any]? { stack.first { $0["symbol"] as? String == culprit } }
  /// Its file and line: the compiler's own instructions have a file and no line.
  public var culpritPlace: String {
    let file = (culpritFrame?["file"] as? String)?.split(separator: "/").last.map(String.init) ?? "no file"
    return (culpritFrame?["line"] as? Int).map { "\(file):\($0)" } ?? file
  }
  /// Whether the stall or its process has ended.
  public var isEnd: Bool { event == "stall.ended" || event == "stall.fatal" }

  /// What a line says of the responsible function if the monitor had seen less than half of the stall by then.
  public static let notSampled = "most of its time was between samples, or before the first one"

  /// Whether the cause is this one.
  ///
  /// Packages under `Integrations` compile this file without StallReport: `ListTests` compares it with `Cause.isReady`.
  /// On a busy machine a computation is truly starved, and throttled in a group whose quota the kernel has counted as used up.
  public func isCaused(by expected: String) -> Bool {
    if cause == expected { return true }
    guard expected == "running" else { return false }
    return cause == "starved" || (cause == "throttled" && self["stall", "evidence", "throttled_ms"] as? Double ?? 0 > 0)
  }
}

/// Which lines are about the stall that a test has made: on a busy machine a turn that waits for a processor is one, too.
extension [WrittenReport] {
  /// The end of the longest stall.
  public var longestEnd: WrittenReport? { filter { $0.event == "stall.ended" }.max { $0.duration < $1.duration } }

  /// Those that name what is responsible: on a busy machine a line before the end may say that too little was seen by then.
  public var named: [WrittenReport] {
    filter { $0.isEnd || $0["stall", "capture", "failure"] as? String != WrittenReport.notSampled }
  }

  /// All lines of the first stall that is in this function.
  public func ofStall(in function: String) -> [WrittenReport] {
    guard let id = first(where: { $0.culprit.contains(function) })?.id else { return [] }
    return filter { $0.id == id }
  }
}
