/// A path in two parts: the directory, and the name in it.
package struct PathParts {
  /// `/` for what is in the root directory, and `.` for a path without a slash.
  package let directory: String
  package let name: String

  package init(_ path: String) {
    guard let slash = path.lastIndex(of: "/") else {
      (directory, name) = (".", path)
      return
    }
    directory = slash == path.startIndex ? "/" : String(path[..<slash])
    name = String(path[path.index(after: slash)...])
  }
}
