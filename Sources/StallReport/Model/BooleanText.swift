/// Booleans as people write them in settings and variables.
package enum BooleanText {
  /// Nil if the text is no Boolean; upper and lower case are the same.
  package static func parse(_ text: String) -> Bool? {
    switch text.lowercased() {
    case "true", "1", "yes", "on": true
    case "false", "0", "no", "off": false
    default: nil
    }
  }
}
