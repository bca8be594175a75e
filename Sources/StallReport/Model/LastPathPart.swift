extension String {
  /// The part of a path that names the file itself; nil for an empty path and for `/`.
  package var lastPathPart: String? { split(separator: "/").last.map(String.init) }
}
