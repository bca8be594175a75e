import DescriptorIO
import Glibc

/// What to do about an input that cannot be used: the second half of a message, after what happened.
enum InputAdvice {
  static let noLines = "the input has no lines; stalld demo > demo.jsonl writes some to try"
  static let noReports = "no line is a report; give lines that a service or the agent wrote, or those of stalld demo"

  /// Why a file of report lines cannot be read, and what to do.
  static func reason(_ code: Int32) -> String {
    let words = String(cString: strerror(code))
    return switch code {
    case ENOENT: "\(words); check the name. The agent writes \(AgentSettings.Output.File().path) by default"
    case EISDIR: "\(words); give the files in it, such as DIRECTORY/*.jsonl"
    case EACCES: "\(words); run as root, or as a user who may read the file"
    default: words
    }
  }

  /// What to do if a file cannot be written, as the end of a sentence; empty if that is not known.
  ///
  /// `parent` is the directory that is missing, or refused a new file.
  static func output(_ code: Int32, _ path: String, in parent: String? = nil) -> String {
    switch code {
    case ENOENT: "; create the directory \(parent ?? PathParts(path).directory), or give another file"
    case EBUSY:
      "; it is a mount point, such as a container's volume of one file: mount its directory, or give another file"
    case EISDIR: "; give the name of a file, such as \(path)/report.html"
    case EACCES, EPERM, EROFS: "; let user \(geteuid()) write to \(parent ?? "it"), or give another file"
    default: ""
    }
  }

  /// What is compressed, where lines are wanted.
  struct GzipInput: Error, CustomStringConvertible {
    let file: String
    let command: String

    /// Nil if the input does not begin as such a file does (RFC 1952).
    init?(_ file: String, _ beginning: some Sequence<UInt8>, for command: String) {
      guard beginning.starts(with: [0x1f, 0x8b]) else { return nil }
      (self.file, self.command) = (file, command)
    }

    var description: String {
      "this is a gzip file; type zcat \(file == "-" ? "FILE" : file) | stalld \(command) -"
    }
  }

  /// Why a file cannot be read, from an error of any type.
  static func reason(_ error: any Error) -> String {
    (error as? SystemError).map { reason($0.code) } ?? "\(error)"
  }

  /// Prints that a command reads from the terminal, if it does.
  static func noteTerminal(_ command: String) {
    guard isatty(STDIN_FILENO) == 1 else { return }
    StandardError.say(command, "reading report lines from the terminal; Ctrl-D ends them. To read files, name them")
  }
}
