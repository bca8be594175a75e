import Glibc
import StallMonitor

extension AgentSettings {
  /// A settings file.
  struct File: Sendable, Equatable {
    var path: String
    /// Whether it must be there.
    var isRequired: Bool

    /// The one that is read if none is named.
    static let usual = File(path: "/etc/stalld/stalld.yaml", isRequired: false)
    /// In bytes.
    static let sizeLimit = 1 << 20

    var exists: Bool { access(path, F_OK) == 0 }
  }

  /// What the command line says, which wins over all else.
  struct Flags: Sendable, Equatable {
    /// Flags that represent a key, such as `--socket` for `socket.path`.
    struct Value: Sendable, Equatable {
      var flag: String
      var key: String
      var text: String
    }
    var values: [Value] = []
    /// Take the place of all outputs, if there is one.
    var outputs: [String] = []
  }

  /// The settings in force: the defaults, the file, the variables and the flags, each over those before.
  ///
  /// Throws all that is wrong with any of them. An agent that runs passes its standard output, which may be a file that a setting leads
  /// to, and the settings that it began with: some of them apply until it is restarted.
  static func load(
    file: File, environment: [String: String], flags: Flags = Flags(), standardOutput: Int32? = nil,
    running: AgentSettings? = nil
  ) throws(SettingsErrors) -> AgentSettings {
    var settings = AgentSettings()
    var reader = SettingsReader(file: file.path)
    var problems = settings.lay(file, by: &reader)
    problems += settings.apply(environment)
    problems += settings.apply(flags)
    if problems.isEmpty {
      let paths = SettingPaths(settings, file: file.path, standardOutput: standardOutput, running: running)
      problems += settings.conflicts(in: paths) { key in
        if let value = flags.values.last(where: { $0.key == key }) { return .flag(value.flag) }
        if !flags.outputs.isEmpty, key.hasPrefix("outputs[") { return .flag("--output") }
        let variable = variable(key)
        if environment[variable]?.isEmpty == false { return .variable(variable) }
        // Of an output's default, that of the output.
        return .file(file.path, line: reader.lines[key] ?? reader.lines[String(key.prefix { $0 != "." })] ?? 0)
      }
    }
    guard problems.isEmpty else { throw SettingsErrors(problems: problems) }
    return settings
  }

  /// What can be used of the file and the variables, also if other parts are invalid.
  static func usable(file: File, environment: [String: String]) -> AgentSettings {
    var settings = AgentSettings()
    var reader = SettingsReader(file: file.path)
    _ = settings.lay(file, by: &reader)
    _ = settings.apply(environment)
    return settings
  }

  /// Lays the file over; returns what cannot be used.
  private mutating func lay(_ file: File, by reader: inout SettingsReader) -> [SettingsError] {
    switch Self.read(file) {
    case .bytes(let bytes): reader.read(YAMLDocument(bytes), into: &self)
    case .nothing: break
    case .failure(let reason): return [SettingsError(location: .file(file.path, line: 0), reason: reason)]
    }
    return reader.problems
  }

  private enum Content {
    case bytes([UInt8])
    case nothing
    case failure(String)
  }

  private static func read(_ file: File) -> Content {
    // A pipe without a writer must not stop the agent.
    let descriptor = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      let code = errno
      if code == ENOENT, !file.isRequired { return .nothing }
      let advice =
        code == ENOENT
        ? "; stalld settings-reference yaml prints one to begin with"
        : code == EACCES ? "; run as root or as the agent's user" : ""
      return .failure("cannot be opened: \(String(cString: strerror(code)))\(advice)")
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      let isDirectory = status.st_mode & S_IFMT == S_IFDIR
      return .failure(isDirectory ? "is a directory; give the settings file in it" : "not a regular file")
    }
    let tooLarge = Content.failure("larger than the limit of \(ByteSize.text(File.sizeLimit))")
    guard status.st_size <= File.sizeLimit else { return tooLarge }
    var bytes = [UInt8](repeating: 0, count: File.sizeLimit + 1)
    var count = 0
    while count < bytes.count {
      let got = bytes[count...].withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if got < 0 { return .failure("cannot be read: \(String(cString: strerror(errno)))") }
      if got == 0 { break }
      count += got
    }
    return count > File.sizeLimit ? tooLarge : .bytes(Array(bytes.prefix(count)))
  }

  /// The names of the keys whose new values a running agent cannot take.
  func changesThatNeedRestart(from old: AgentSettings) -> [String] {
    Self.keys.filter { $0.needsRestart && $0.values(self) != $0.values(old) }.map(\.name)
  }
}
