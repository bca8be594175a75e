import DescriptorIO
import Glibc

/// The files of report lines that a command reads, as they were when it began; none of them may be what it writes.
///
/// Between a listing and the opening, the agent may rename the file that it writes, and compress a file that it has renamed. What
/// these files had is then read under its new name. What cannot be read is one of ``failures``, and never missing in silence.
struct InputFiles: Sendable {
  /// Why a file could not be read, or not to its end.
  struct Failure: Sendable {
    var file: String
    var reason: String
  }

  /// A file that is open for reading.
  struct Input {
    var descriptor: Int32
    var name: String
  }

  private(set) var failures: [Failure]
  /// Files that could be opened.
  private(set) var opened = 0
  /// In the order in which they are read; names that appear later come last.
  private var names: [String]
  private var next = 0
  /// What the names of regular files led to when the command began.
  private let listed: [String: FileIdentity]
  /// The names in the files' directories at that time.
  private let entries: [String: Set<String>]

  /// Names of files, or patterns as of glob(7); `-`, which is also the default, is standard input.
  init(_ arguments: [String]) {
    var (names, failures): ([String], [Failure]) = (arguments.isEmpty ? ["-"] : [], [])
    for argument in arguments {
      if let found = Self.expand(argument) {
        names += found
      } else {
        failures.append(Failure(file: argument, reason: "no file matches this pattern; check it with ls"))
      }
    }
    self.names = Self.withoutCopies(names)
    self.failures = failures
    var listed: [String: FileIdentity] = [:]
    for name in names {
      var status = stat()
      guard (name == "-" ? fstat(STDIN_FILENO, &status) : stat(name, &status)) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFREG { listed[name] = FileIdentity(status) }
    }
    self.listed = listed
    let directories = Set(listed.keys.lazy.filter { $0 != "-" }.map { PathParts($0).directory })
    entries = Dictionary(uniqueKeysWithValues: directories.map { ($0, Self.entries(of: $0)) })
  }

  var hasStandardInput: Bool { names.contains("-") }

  /// What a file is called if the command reads it.
  func name(of file: FileIdentity) -> String? {
    listed.first { $0.value == file }.map { $0.key == "-" ? "standard input" : $0.key }
  }

  /// Opens the next file that can be opened; nil after the last one.
  ///
  /// The caller closes it.
  mutating func open() -> Input? {
    while next < names.count {
      let name = names[next]
      next += 1
      if let input = open(name) {
        opened += 1
        return input
      }
    }
    return nil
  }

  /// Notes that a file could not be read, or not to its end.
  mutating func fail(_ file: String, _ reason: String) {
    failures.append(Failure(file: file == "-" ? "standard input" : file, reason: reason))
  }

  // MARK: One file

  private mutating func open(_ name: String) -> Input? {
    var path = name
    var descriptor = name == "-" ? dup(STDIN_FILENO) : Glibc.open(name, O_RDONLY | O_CLOEXEC)
    if descriptor < 0, errno == ENOENT, name != "-" {
      if names.contains(Self.compressed(name)) || takeSuccessors(of: name) { return nil }
      path = Self.compressed(name)
      descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
    }
    var status = stat()
    guard descriptor >= 0, fstat(descriptor, &status) == 0 else {
      let isRemoved = errno == ENOENT && listed[name] != nil
      fail(name, isRemoved ? "was removed while the command ran" : InputAdvice.reason(errno))
      return nil
    }
    let isRegular = status.st_mode & S_IFMT == S_IFREG
    if status.st_mode & S_IFMT == S_IFDIR || (isRegular && status.st_size == 0 && path.hasSuffix(".gz")) {
      close(descriptor)
      fail(path, isRegular ? "is empty, which no gzip file is" : InputAdvice.reason(EISDIR))
      return nil
    }
    // A file that logrotate has renamed may be read under the name of another one.
    if path == name, let before = listed[name], before != FileIdentity(status), !takeSuccessors(of: name),
      !names[next...].contains(where: { FileIdentity(path: $0, followingLinks: true) == before })
    {
      fail(name, "was replaced while the command ran, and what it had before was not found; run the command again")
    }
    return Input(descriptor: descriptor, name: path)
  }

  /// Adds the files that have appeared beside a file under its name, such as `NAME.gz`, or the agent's name for a rotated file.
  ///
  /// False if there is none.
  private mutating func takeSuccessors(of name: String) -> Bool {
    guard name != "-", listed[name] != nil else { return false }
    let place = PathParts(name)
    let before = entries[place.directory] ?? []
    let new = Self.entries(of: place.directory).subtracting(before).filter { entry in
      // What was another file of the listing is read under that one's name.
      entry.hasPrefix(place.name + ".")
        && (entry == Self.compressed(place.name) || !before.contains { Self.compressed($0) == entry })
    }
    let paths = new.filter { !new.contains(String($0.dropLast(".gz".count))) || !$0.hasSuffix(".gz") }.sorted()
    let added: [String] = paths.map { name.dropLast(place.name.count) + $0 }
    names += added.filter { !names.contains($0) }
    return !added.isEmpty
  }

  private static func compressed(_ name: String) -> String { name + RotatedFile.Form.compressed.rawValue }

  /// The names without rotated files whose archives are there, too, as the agent has not removed them yet.
  private static func withoutCopies(_ names: [String]) -> [String] {
    let all = Set(names)
    return names.filter { !all.contains(compressed($0)) || RotatedName(moment: String($0.suffix(27))) == nil }
  }

  private static func entries(of path: String) -> Set<String> {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: Set<String> = []
    while let entry = readdir(directory) { names.insert(entry.name) }
    return names
  }

  /// The files that a pattern matches, in the order of their names; nil without any.
  private static func expand(_ name: String) -> [String]? {
    guard name != "-", access(name, F_OK) != 0, name.contains(where: { "*?[".contains($0) }) else { return [name] }
    var found = glob_t()
    defer { globfree(&found) }
    guard glob(name, 0, nil, &found) == 0 else { return nil }
    return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
  }
}
