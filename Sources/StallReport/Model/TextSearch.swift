extension StringProtocol {
  /// The first place of `text`, compared by bytes.
  ///
  /// It is nil if `text` is empty.
  ///
  /// The standard library's search for a text is in its library of regular expressions, which makes a static executable 1.3 MB
  /// larger. `make structure` builds the libraries without it.
  package func firstRange(ofText text: some StringProtocol) -> Range<String.Index>? {
    guard let first = text.utf8.first else { return nil }
    var rest = utf8[...]
    while let start = rest.firstIndex(of: first) {
      if rest[start...].starts(with: text.utf8) { return start..<utf8.index(start, offsetBy: text.utf8.count) }
      rest = rest[utf8.index(after: start)...]
    }
    return nil
  }

  /// Whether `text` is in it, compared by bytes.
  package func contains(text: some StringProtocol) -> Bool { firstRange(ofText: text) != nil }
}
