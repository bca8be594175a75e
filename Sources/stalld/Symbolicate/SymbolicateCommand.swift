import ArgumentParser
import Glibc
import StallMonitor
import StallReport

/// `stalld symbolicate`: names for the frames that had none when the report was made.
struct SymbolicateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "symbolicate",
    abstract: "Completes report lines whose frames lack names, files or lines.",
    discussion: """
      Reads report lines and writes them to standard output, completed by what is found for each frame's build id and offset: \
      in a file given by --executable, under --search, at the module's own path, or in a separate debug file \
      (DIR/.build-id/xx/….debug). The build id is always checked: a frame of another build keeps what it has.

      Calls that were inlined become frames of their own. Culprit and message are made anew where the culprit had no name, and \
      so is the fingerprint if no frame was left out of the line. Of a computation it is made of all samples (call_tree), which are taken out of \
      the line then; if it cannot be told, there is none. stall.path comes from them, too. Everything else stays as it is written. A line stays \
      within 8000 bytes. Lines that are no reports pass through unchanged; standard error says which.

      Exit code: 0; 1 if a file could not be read, the output not be written, or libdw is not installed; 64 wrong use.
      """)

  @Option(
    name: .customLong("debug-dir"),
    help: ArgumentHelp(
      "Where separate debug files lie, before /usr/lib/debug; may be repeated.", valueName: "directory"))
  var debugDirectories: [String] = []

  @Option(
    name: .customLong("executable"),
    help: ArgumentHelp(
      "An executable, library or separate debug file that has the names; may be repeated.", valueName: "file"))
  var executables: [String] = []

  @Option(
    name: .customLong("search"),
    help: ArgumentHelp(
      "A directory under which such files lie; may be repeated.", valueName: "directory"))
  var searchDirectories: [String] = []

  @Argument(help: "Files of report lines; none, or -, is standard input.")
  var files: [String] = []

  func validate() throws {
    for (option, paths) in [("--debug-dir", debugDirectories), ("--search", searchDirectories)] {
      for path in paths {
        var found = stat()
        guard stat(path, &found) == 0, found.st_mode & S_IFMT == S_IFDIR else {
          throw ValidationError("\(option) \(path): not a directory; an existing one is needed.")
        }
      }
    }
    guard DebugFiles.obstacle() == nil else { return }
    for path in executables where DebugFiles.identify(path) == nil {
      throw ValidationError("--executable \(path): not an ELF file of this machine with a build id.")
    }
  }

  func run() throws {
    if let obstacle = DebugFiles.obstacle() {
      SymbolicationPass.say("nothing can be looked up: \(obstacle)")
      throw ExitCode(1)
    }
    let names = DebugFiles(
      executables: executables, searchDirectories: searchDirectories,
      debugDirectories: debugDirectories + ["/usr/lib/debug"])
    let pass = SymbolicationPass(names: names)
    var failed = false
    for file in files.isEmpty ? ["-"] : files {
      do {
        try pass.run(file)
      } catch let error as SymbolicationPass.OutputFailure {
        SymbolicationPass.say("standard output: \(error.cause)")
        throw ExitCode(1)
      } catch {
        SymbolicationPass.say("\(file): \(error)")
        failed = true
      }
    }
    pass.summarize()
    if failed { throw ExitCode(1) }
  }
}
