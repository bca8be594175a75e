import BenchmarkSupport

/// The numbers that a host prints: this program with another argument, as a process of its own.
func numbers(of scenario: String) throws -> [Double] {
  try runMyself([scenario]).split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
}
