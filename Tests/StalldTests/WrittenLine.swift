import Foundation
import Testing

/// A line that was written, read as a consumer would.
struct WrittenLine {
  /// With the newline.
  let bytes: Int
  let object: [String: Any]

  init(_ text: some StringProtocol) throws {
    bytes = text.utf8.count + 1
    object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  subscript(_ path: String...) -> Any? {
    var value: Any? = object
    for key in path { value = (value as? [String: Any])?[key] }
    return value
  }

  var event: String { self["event", "name"] as? String ?? "" }
  var id: String { self["stall", "id"] as? String ?? "" }
  var culprit: String { self["stall", "culprit"] as? String ?? "" }
  var fingerprint: String? { self["stall", "fingerprint"] as? String }
  var stack: [[String: Any]] { object["stack"] as? [[String: Any]] ?? [] }
}
