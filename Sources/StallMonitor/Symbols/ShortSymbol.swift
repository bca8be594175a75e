/// Names as people read them.
enum ShortSymbol {
  /// The short form of a demangled name.
  static func shorten(_ symbol: String) -> String { symbol }

  /// Whether a linkage name is of a function that nobody wrote.
  static func isCompilerGenerated(_ linkageName: String) -> Bool { false }
}
