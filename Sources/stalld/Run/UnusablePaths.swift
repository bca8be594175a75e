import DescriptorIO
import Glibc

/// The paths of the settings that the agent cannot use as things are, each with the reason and what to do.
///
/// Opening them one after the other would report the first one only.
struct UnusablePaths {
  private(set) var problems: [String] = []

  /// - Parameters:
  ///   - settings: The agent's.
  ///   - hasSocket: Whether systemd hands the socket for services over.
  init(of settings: AgentSettings, hasSocket: Bool) {
    check(directory: settings.details.directory)
    for case let file? in settings.outputs.map(\.path) { check(file: file) }
    if !hasSocket { check(socket: settings.socket.path, flag: "--socket PATH") }
    check(socket: settings.control.path, flag: "--control PATH")
    if case .path(let path)? = settings.metrics.listen { check(socket: path, flag: "--metrics-listen unix:PATH") }
  }

  private mutating func check(directory: String) {
    var status = stat()
    // The agent creates the last part of the path.
    let place = stat(directory, &status) == 0 ? directory : PathParts(directory).directory
    note("details.directory \(directory)", place, "give another directory with --details DIRECTORY")
  }

  private mutating func check(file: String) {
    var status = stat()
    guard lstat(file, &status) != 0 else { return }
    note("file \(file)", PathParts(file).directory, "give another file with --output file:PATH")
  }

  private mutating func check(socket: String, flag: String) {
    let (what, other) = ("cannot listen at \(socket)", "give another path with \(flag)")
    if let obstacle = StreamListener.obstacle(at: socket) {
      problems.append("\(what): \(obstacle), or \(other)")
    } else {
      note(what, PathParts(socket).directory, other)
    }
  }

  /// Reports a directory that does not exist, or in which the agent cannot create files.
  private mutating func note(_ what: String, _ directory: String, _ other: String) {
    var status = stat()
    if stat(directory, &status) == 0, status.st_mode & S_IFMT != S_IFDIR {
      return problems.append("\(what): \(directory) is not a directory; \(other)")
    }
    guard faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0 else { return }
    let code = errno
    let advice =
      switch code {
      case ENOENT: "create the directory \(directory), or \(other)"
      case EACCES: "user \(geteuid()) cannot create files in \(directory); grant that, or \(other)"
      default: other
      }
    problems.append("\(what): \(String(cString: strerror(code))); \(advice)")
  }
}
