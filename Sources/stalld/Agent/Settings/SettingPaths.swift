import DescriptorIO
import Glibc

/// What the settings lead to, and the rule that no two of them lead to one file.
struct SettingPaths {
  /// A setting whose value is a path, or another place for reports.
  struct Entry {
    var key: String
    var value: String
    /// The value as a flag has it.
    var argument: String
    /// The path of the setting, and those that the agent makes of it.
    fileprivate var paths: [String]
    fileprivate var places: [FilePlace]
    fileprivate var isOutput = false
    /// The running agent uses it until it is restarted.
    fileprivate var isRunning = false
    /// The path leads to another type of file than the setting needs.
    fileprivate var isUnusable = false

    fileprivate init(
      _ key: String, _ path: String, type: mode_t? = nil, value: String? = nil, and others: [String] = []
    ) {
      var status = stat()
      if let type { isUnusable = stat(path, &status) == 0 && status.st_mode & S_IFMT != type }
      (self.key, self.value, argument) = (key, value ?? path, value ?? path)
      paths = [path] + others
      places = paths.map { FilePlace($0) }
    }

    fileprivate init(_ key: String, _ output: AgentSettings.Output, standardOutput: Int32?) {
      let place = output.localPath.map { FilePlace($0) } ?? FilePlace(name: output.destination)
      (self.key, value, argument) = (key, output.localPath ?? output.destination, output.destination)
      paths = [value]
      places = [place]
      isOutput = true
      if output == .standardOutput, let standardOutput, let file = FileIdentity(standardOutput) {
        paths.append("standard output")
        places.append(FilePlace(file))
      }
    }
  }

  private let entries: [Entry]

  /// - Parameters:
  ///   - settings: The new settings.
  ///   - file: The path of the settings file.
  ///   - standardOutput: The agent's, if it runs.
  ///   - running: The settings that a running agent began with: it keeps some of them until it is restarted.
  init(_ settings: AgentSettings, file: String, standardOutput: Int32?, running: AgentSettings?) {
    var entries = [Entry("the settings file", file)]
    for (index, output) in settings.outputs.enumerated() {
      let key = "outputs[\(index)]" + (output.kind.operandKey.map { "." + $0 } ?? "")
      entries.append(Entry(key, output, standardOutput: standardOutput))
    }
    let details = settings.details.directory
    // The daily usage, and an example of a detail file.
    let inside = ["usage", "usage.part", "0.json.part"].map { "\(details)/\($0)" }
    entries.append(Entry("details.directory", details, type: S_IFDIR, and: inside))
    let kept = Self.keptUntilRestart(settings)
    entries += kept
    let old = running.map(Self.keptUntilRestart) ?? []
    entries += old.filter { entry in !kept.contains { $0.key == entry.key && $0.value == entry.value } }.map {
      var entry = $0
      entry.isRunning = true
      return entry
    }
    self.entries = entries
  }

  private static func keptUntilRestart(_ settings: AgentSettings) -> [Entry] {
    var entries = [("socket.path", settings.socket.path), ("control.path", settings.control.path)].map { key, path in
      Entry(key, path, type: S_IFSOCK, and: [SocketLock.path(of: path)])
    }
    if case .path(let path)? = settings.metrics.listen {
      entries.append(
        Entry("metrics.listen", path, type: S_IFSOCK, value: "unix:\(path)", and: [SocketLock.path(of: path)]))
    }
    if let path = settings.metrics.textfile {
      entries.append(Entry("metrics.textfile", path, and: [AgentSettings.Metrics.unfinished(of: path)]))
    }
    return entries
  }

  /// Each setting that leads to a file of an earlier one, with the reason.
  var conflicts: [(entry: Entry, reason: String)] {
    entries.indices.compactMap { index in
      let later = entries[index]
      for earlier in entries[..<index] {
        // What both come into force by a restart is compared with each other, not with what ends then.
        if later.isRunning, !earlier.isOutput, earlier.key != "details.directory" { continue }
        guard let reason = Self.conflict(of: later, with: earlier) else { continue }
        return (later, reason + (later.isRunning ? "; it applies until the agent is restarted" : ""))
      }
      return nil
    }
  }

  private static func conflict(of later: Entry, with earlier: Entry) -> String? {
    // `stalld run` lists what neither can use, with more advice: see ``UnusablePaths``.
    if later.isUnusable, earlier.isUnusable { return nil }
    for (path, place) in zip(earlier.paths, earlier.places) {
      guard let position = later.places.firstIndex(of: place) else { continue }
      if earlier.isOutput, later.isOutput { return "an earlier output, \(earlier.key), writes to the same place" }
      if path == later.paths[position], path == earlier.paths[0], position == 0 {
        return "\(earlier.key) has the same path"
      }
      return "\(earlier.key) = \(earlier.value) leads to the same file, \(path)"
    }
    return files(of: earlier, include: later) ?? files(of: later, include: earlier)
  }

  /// Whether a path is one that an output's rotated files have, or that a glob of its files matches, such as `*.jsonl*`.
  private static func files(of output: Entry, include other: Entry) -> String? {
    guard output.isOutput, output.value.hasPrefix("/"), output.key.hasSuffix(".path") else { return nil }
    let log = PathParts(FilePlace.resolved(output.value))
    let directory = FilePlace(log.directory)
    let ending = log.name.dropFirst().lastIndex(of: ".").map { log.name[$0...] }.flatMap { $0.count > 1 ? $0 : nil }
    for path in other.paths where path.hasPrefix("/") {
      var rest = FilePlace.resolved(path)
      while rest != "/" {
        let parts = PathParts(rest)
        rest = parts.directory
        // What has the log's own name was compared already.
        guard FilePlace(parts.directory) == directory, parts.name != log.name else { continue }
        if RotatedFile.parts(of: parts.name, besides: log.name) != nil {
          return "\(path) of \(other.key) is a name of a rotated file of \(output.key)"
        }
        guard !other.isOutput, let ending, !parts.name.hasPrefix("."), parts.name.contains(ending) else { continue }
        let glob = "\(log.directory)/*\(ending)*"
        return "\(glob), which matches the files of \(output.key), matches \(path) of \(other.key), too"
      }
    }
    return nil
  }
}

/// Where a path leads: to a file that exists, or to a missing name below a directory that exists.
struct FilePlace: Equatable {
  private var existing: FileIdentity?
  private var missing: [String] = []

  /// As many links as the kernel follows.
  private static let linkLimit = 40

  init(_ file: FileIdentity) { existing = file }

  /// A place that is no file, such as an address.
  init(name: String) { missing = [name] }

  /// Follows links, also one that leads to a missing file.
  init(_ path: String) {
    var (path, links) = (path, 0)
    while true {
      existing = FileIdentity(path: path, followingLinks: true)
      if existing != nil || path.isEmpty || path == "/" || path == "." { return }
      let parts = PathParts(path)
      if links < Self.linkLimit, let target = Self.link(path) {
        links += 1
        path = target.hasPrefix("/") ? target : "\(parts.directory)/\(target)"
      } else {
        if !parts.name.isEmpty { missing.insert(parts.name, at: 0) }
        path = parts.directory
      }
    }
  }

  /// The same path without links, as far as it exists.
  static func resolved(_ path: String) -> String {
    if let real = realpath(path, nil) {
      defer { free(real) }
      return String(cString: real)
    }
    let parts = PathParts(path)
    guard parts.directory != path else { return path }
    let directory = resolved(parts.directory)
    return (directory == "/" ? "" : directory) + "/" + parts.name
  }

  private static func link(_ path: String) -> String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { text in
      let count = readlink(path, text.baseAddress!, text.count - 1)
      guard count > 0 else { return nil }
      text[count] = 0
      return String(cString: text.baseAddress!)
    }
  }
}

extension AgentSettings.Output {
  /// The file that it writes, or the socket that it sends to.
  fileprivate var localPath: String? {
    if case .syslog(let syslog) = self, case .local(let path) = syslog.address { return path }
    return path
  }
}
