/// Distinguishes functions that a system header defines from those that the program's authors
/// wrote.
///
/// Templates and inline functions of `/usr/include` and of the compilers become code of the program that uses them. Only
/// DWARF says where they come from. Pure; reads no file.
enum SystemHeaders {
  /// Whether a file is a system header.
  ///
  /// - Parameters:
  ///   - file: Where DWARF says that the function is declared.
  ///   - source: The source file whose compilation saw that, if known. Its own directories are the program's, even if they
  ///     look like those of a compiler.
  /// - Returns: Whether it is.
  static func contain(_ file: String, compiledFor source: String?) -> Bool {
    let parts = components(file)
    guard let headers = headerDirectory(of: parts, isAbsolute: file.hasPrefix("/")) else { return false }
    guard let source else { return true }
    let own = components(source)
    if own.starts(with: parts[..<headers.end]) { return false }
    return headers.isShared || !own.starts(with: parts[..<headers.start])
  }

  /// The directory of headers that a path leads into: its parts up to `end`, `start` of them being where the toolchain is installed.
  private struct HeaderDirectory {
    var start: Int
    var end: Int
    /// The toolchain is installed in a directory that programs lie in as well (`/usr/src/app`).
    var isShared: Bool
  }

  private static func headerDirectory(of parts: [Substring], isAbsolute: Bool) -> HeaderDirectory? {
    if isAbsolute, parts.count > 2, parts[0] == "usr" {
      if parts[1] == "include" { return HeaderDirectory(start: 1, end: 2, isShared: true) }
      if parts[1] == "lib", parts.count > 3, parts[2].hasPrefix("llvm-") {
        return HeaderDirectory(start: 1, end: 3, isShared: true)
      }
    }
    for index in parts.indices {
      guard let length = lengthOfToolchainHeaders(parts[index...]), index + length < parts.count else { continue }
      let root = parts[..<index]
      let isShared = [[], ["usr"], ["usr", "local"]].contains(Array(root))
      return HeaderDirectory(start: index, end: index + length, isShared: isShared)
    }
    return nil
  }

  /// How many parts lead to a compiler's own headers, from where it is installed: `include/c++/12`, `lib/gcc/x86_64-linux-gnu/12/include`.
  private static func lengthOfToolchainHeaders(_ parts: ArraySlice<Substring>) -> Int? {
    let parts = Array(parts.prefix(5))
    func isVersion(_ index: Int) -> Bool {
      index < parts.count && (parts[index] == "v1" || parts[index].first.map { "0"..."9" ~= $0 } == true)
    }
    func isHeaders(_ index: Int) -> Bool { index < parts.count && parts[index].hasPrefix("include") }
    guard parts.count > 2 else { return nil }
    if parts[0] == "include" {
      if parts[1] == "c++", isVersion(2) { return 3 }
      // What libc++ has for one machine: include/x86_64-unknown-linux-gnu/c++/v1.
      return parts[1].contains("-") && parts[2] == "c++" && isVersion(3) ? 4 : nil
    }
    guard ["lib", "lib64", "libexec"].contains(parts[0]) else { return nil }
    switch parts[1] {
    case "gcc", "gcc-cross": return isVersion(3) && isHeaders(4) ? 5 : nil
    case "clang": return isVersion(2) && isHeaders(3) ? 4 : nil
    case "swift", "swift_static": return swiftHeaders.contains(parts[2]) ? 3 : nil
    default: return nil
    }
  }

  private static let swiftHeaders: Set<Substring> = [
    "Block", "CoreFoundation", "clang", "dispatch", "linux", "os", "shims",
  ]

  /// The names between the slashes, without those that lead nowhere and back.
  private static func components(_ path: String) -> [Substring] {
    var parts: [Substring] = []
    for part in path.split(separator: "/") where part != "." {
      if part == "..", let last = parts.last, last != ".." { parts.removeLast() } else { parts.append(part) }
    }
    return parts
  }
}
