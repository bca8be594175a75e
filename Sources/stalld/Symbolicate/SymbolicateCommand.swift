import ArgumentParser
import Glibc
import StallMonitor
import StallReport

/// `stalld symbolicate`: names for the frames that had none when the report was made.
struct SymbolicateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "symbolicate",
    abstract: "Adds missing function names, files and line numbers to report lines.",
    discussion: """
      Example:
        stalld symbolicate --search ./build stalls.jsonl > named.jsonl

      Reads report lines, looks up each frame by build ID and offset, and writes the completed lines to standard output. It \
      searches the files of --executable, the directories of --search, the module's own path, and separate debug files \
      (DIR/.build-id/xx/….debug). The build ID must match: a frame of another build stays unchanged.

      Inlined calls become separate frames. The command names stall.culprit if it had no name, and completes the function, file \
      and line in message. The command sets stall.fingerprint if it is missing, \
      if stall.culprit had no name, or if the line has call_tree. In a line with frames_omitted, it sets none; it removes the old one \
      if the thread ran on CPU and stall.culprit gets its name. For a thread that ran on CPU, the fingerprint and \
      stall.path come from all samples (call_tree), which the command then removes from the line; if they are ambiguous, the \
      line has no fingerprint. Everything else stays unchanged. A line is at most 8000 bytes long. Lines that are not reports \
      pass through unchanged; standard error lists the first ten.

      Exit code: 0; 1 if a file cannot be read, no line is a report, the output cannot be written, or libdw is not installed; 64 \
      usage error.
      """)

  @Option(
    name: .customLong("debug-dir"),
    help: ArgumentHelp(
      "Search here for separate debug files, before /usr/lib/debug; may be repeated.", valueName: "directory"))
  var debugDirectories: [String] = []

  @Option(
    name: .customLong("executable"),
    help: ArgumentHelp(
      "Use this executable, library or separate debug file; may be repeated.", valueName: "file"))
  var executables: [String] = []

  @Option(
    name: .customLong("search"),
    help: ArgumentHelp(
      "Search this directory for such files; may be repeated.", valueName: "directory"))
  var searchDirectories: [String] = []

  @Argument(help: "Files of report lines; default, or -: standard input.")
  var files: [String] = []

  func validate() throws {
    for (option, paths) in [("--debug-dir", debugDirectories), ("--search", searchDirectories)] {
      for path in paths {
        var found = stat()
        guard stat(path, &found) == 0, found.st_mode & S_IFMT == S_IFDIR else {
          throw ValidationError("\(option) \(path) is not a directory; give an existing directory.")
        }
      }
    }
    guard DebugFiles.obstacle() == nil else { return }
    for path in executables {
      if let obstacle = Self.obstacle(to: path) { throw ValidationError("--executable \(path)\(obstacle)") }
    }
  }

  /// Why a file has no names for this command, and what to do, in words that follow its path; nil if it may have some.
  private static func obstacle(to path: String) -> String? {
    var found = stat()
    guard stat(path, &found) == 0 else {
      let words = String(cString: strerror(errno))
      return errno == EACCES ? ": \(InputAdvice.reason(EACCES))." : ": \(words); check the name."
    }
    if found.st_mode & S_IFMT == S_IFDIR { return " is a directory; use --search for directories." }
    let read: ELFHeader?
    do { read = try ELFHeader(path) } catch { return ": \(InputAdvice.reason(error.code))." }
    guard let header = read else {
      return " is not an ELF file; give an executable, a library or a separate debug file."
    }
    if header.isCoreDump { return " is a core dump; give the executable and the libraries of the process." }
    if let architecture = header.otherArchitecture {
      return " is for \(architecture); run stalld symbolicate on a machine of that architecture."
    }
    if header.isCutOff { return " is cut off: it ends before its tables do; give the whole file." }
    return DebugFiles.identify(path) == nil ? " has no build ID; link it with -Wl,--build-id." : nil
  }

  func run() throws {
    DescriptorLimit.raise()
    var inputs = InputFiles(files)
    try OutputFile.checkStandardOutput(of: "symbolicate", inputs: inputs)
    if let obstacle = DebugFiles.obstacle() {
      SymbolicationPass.say("cannot look up function names: \(obstacle)")
      throw ExitCode(1)
    }
    let names = DebugFiles(
      executables: executables, searchDirectories: searchDirectories,
      debugDirectories: debugDirectories + ["/usr/lib/debug"])
    let pass = SymbolicationPass(names: names)
    if inputs.hasStandardInput { InputAdvice.noteTerminal("symbolicate") }
    while let input = inputs.open() {
      do {
        try pass.run(input)
      } catch {
        inputs.fail(input.name, "\(error)")
      }
    }
    for failure in inputs.failures { SymbolicationPass.say("\(failure.file): \(failure.reason)") }
    pass.summarize()
    if inputs.failures.isEmpty, let advice = pass.advice { SymbolicationPass.say(advice) }
    if !inputs.failures.isEmpty || pass.hasNoReports { throw ExitCode(1) }
  }
}
