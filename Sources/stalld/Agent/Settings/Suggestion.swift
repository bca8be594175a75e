/// The most similar allowed word, for error messages.
enum Suggestion {
  /// The nearest of the candidates, if it is near enough to be a slip.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    // The distance of a longer word costs time, and such a word is no misspelling.
    guard word.utf8.count <= 100 else { return nil }
    let nearest = candidates.map { ($0, $0.distance(to: word)) }.min { $0.1 < $1.1 }
    return nearest.flatMap { $0.1 <= max(2, $0.0.utf8.count / 3) ? $0.0 : nil }
  }
}
