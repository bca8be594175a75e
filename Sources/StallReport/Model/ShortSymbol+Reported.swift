/// Names as reports have them: demangled, and without the mangled name that would say which language they are of.
extension ShortSymbol {
  /// The short form of a reported symbol: that of a Swift function, and the symbol itself in other languages.
  package static func shorten(_ symbol: String) -> String {
    guard isSwiftText(symbol) else { return symbol }
    return shorten(symbol, linkageName: isTopLevelOfAsyncMain(symbol) ? symbol : "$s")
  }

  /// Whether nobody wrote the function of a reported symbol: a thunk, a partial application, a witness.
  package static func isCompilerGenerated(_ symbol: String) -> Bool {
    isSwiftText(symbol) && isCompilerGenerated(symbol, linkageName: "$s")
      || ["non-virtual thunk to ", "virtual thunk to "].contains(where: symbol.hasPrefix)
  }

  /// The Swift module of a reported symbol: that of the outermost context, or the one that extends a type of another.
  ///
  /// - Returns: The module; nil for names of C and C++.
  package static func module(of symbol: String) -> Substring? {
    guard !symbol.contains(text: "::") else { return nil }
    var text = withoutDisguise(Array(symbol.utf8)[...])
    var isLocal = false
    for _ in 0..<depthLimit {
      if let prefix = modifiers.first(where: { text.starts(with: $0.utf8) }) {
        text = text.dropFirst(prefix.utf8.count)
      } else if let split = firstRange(of: " in ", in: text, outsideBrackets: true),
        firstRange(of: " #", in: text[..<split.lowerBound]) != nil
      {
        text = text[split.upperBound...]
        isLocal = true
      } else if let end = endOfKind(text) {
        text = text[end...]
      } else {
        break
      }
    }
    let mark = "(extension in "
    if text.starts(with: mark.utf8) {
      return Substring(string(text.dropFirst(mark.utf8.count).prefix { $0 != UInt8(ascii: ")") }))
    }
    let components = path(text).components
    return components.count > 1 || isLocal ? Substring(components[0]) : nil
  }

  private static let modifiers = [
    "static ", "mutating ", "override ", "@objc ", "@nonobjc ", "partial apply forwarder for ", "protocol witness for ",
  ]

  /// Whether a demangled name is one of Swift: names of C have no types, and those of C++ have other signs.
  private static func isSwiftText(_ symbol: String) -> Bool {
    guard !symbol.contains(text: "::") else { return false }
    let starts = [
      "closure #", "implicit closure #", "static ", "(extension in ", "@objc ", "@nonobjc ",
      "partial apply forwarder for ", "protocol witness for ", "reabstraction thunk ", "default argument ",
      "variable initialization expression of ", "one-time initialization function for ", "type metadata ", "outlined ",
      "key path ", "dispatch thunk ", "vtable thunk ", "generic specialization <",
      "function signature specialization <",
    ]
    return starts.contains(where: symbol.hasPrefix) || isTopLevelOfAsyncMain(symbol) || symbol.contains(text: " -> ")
      || symbol.contains(text: " : ")
      || symbol.hasSuffix("deinit")
      || symbol.contains(text: " resume partial function for ")
  }
}
