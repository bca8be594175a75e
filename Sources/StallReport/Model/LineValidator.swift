/// Checks whether bytes of another process may be sent as a report line.
package enum LineValidator {
  /// One line of text that begins and ends as a report does, without a control character.
  ///
  /// `event` is what the name of its event begins with; a closing quote at the end makes it the whole name.
  package static func isReport(_ line: some BidirectionalCollection<UInt8>, event: String = "stall.") -> Bool {
    line.starts(with: "{\"@timestamp\":\"".utf8) && line.suffix(2).elementsEqual("}\n".utf8)
      && line.dropLast().allSatisfy { $0 >= 0x20 && $0 != 0x7f }
      && String(validating: line, as: UTF8.self)?.contains(text: "\"event\":{\"name\":\"\(event)") == true
  }
}
