import ArgumentParser
import Glibc
import LoopEngine
import StallReport

/// `stalld tail`: reports as they come, for people.
struct TailCommand: ParsableCommand {
  enum Color: String, CaseIterable, ExpressibleByArgument {
    case auto, always, never
  }

  static let configuration = CommandConfiguration(
    commandName: "tail",
    abstract: "Follows reports as they arrive, one readable line for each.",
    discussion: """
      Examples:
        stalld tail
        stalld tail --service 'web*' --min 500ms --stack
        stalld tail /var/log/stalld/stalls.jsonl

      Without a file, the command follows the running agent. It follows files of JSON lines by their names, as tail -F does: a file \
      may be rotated, truncated, or come later. A file with several names is read once. Standard input (-) and pipes are read to \
      their end. Lines that are not reports are skipped; their count is printed on standard error.

      Output is coloured on a terminal unless NO_COLOR is set; --color overrides both.

      Exit code: 0 after SIGINT, SIGTERM or the end of the input, or if the reader of the output exits; 1 if no agent responds, the \
      agent closes the connection, or an input cannot be read; 64 usage error.
      """)

  @Option(help: ArgumentHelp("Show only services whose name matches the pattern, such as 'web*'.", valueName: "glob"))
  var service: String?

  @Option(name: .customLong("cause"), help: "Show only stalls with this cause; may be repeated.")
  var causes: [Cause] = []

  @Option(
    help: ArgumentHelp(
      "Show only stalls of at least this duration: \(DurationArgument.allowed).", valueName: "duration"))
  var min: DurationArgument?

  @Flag(help: "Print the report lines, one JSON object each; on a terminal, unprintable characters are escaped.")
  var json = false

  @Flag(help: "Print the stack below each line; frames of run loops, thunks and the C library's start are one line.")
  var stack = false

  @Flag(help: "Print the stack with all frames, and function names in full.")
  var allFrames = false

  @Option(help: "How many earlier lines to print first; the agent keeps 50.")
  var lines = 10

  @Option(help: "Colours: auto, always or never.")
  var color = Color.auto

  @Option(help: ArgumentHelp("The agent's control socket.", valueName: "path"))
  var control = ControlClient.defaultPath

  @Argument(help: "Files of report lines to follow; - for standard input.")
  var files: [String] = []

  func validate() throws {
    guard lines >= 0 else { throw ValidationError("--lines \(lines) is invalid; allowed: 0 or more.") }
  }

  func run() throws {
    if !files.isEmpty { try OutputFile.checkStandardOutput(of: "tail", inputs: InputFiles(files)) }
    let loop = Loop.main
    DescriptorLimit.raise()
    let stopSignals = try StopSignals(stopping: loop)
    defer { withExtendedLifetime(stopSignals) {} }
    let filter = TailFilter(
      service: service, causes: Set(causes.map(\.rawValue)), leastMilliseconds: min?.milliseconds ?? 0)
    let printer = json ? nil : TailPrinter(usesColor: usesColor, showsStack: stack || allFrames, showsAll: allFrames)
    let session = TailSession(loop: loop, filter: filter, printer: printer)
    var failed = false
    if files.isEmpty {
      do {
        session.follow(
          try ControlClient(path: control, request: #"{"tail":{"lines":\#(lines)}}"#), path: control)
      } catch {
        Self.say("\(error)")
        throw ExitCode(1)
      }
    }
    for file in files {
      do {
        if file == "-" {
          InputAdvice.noteTerminal("tail")
          session.readStandardInput()
        } else {
          try session.follow(file, lines: lines)
        }
      } catch {
        Self.say("\(file): \(InputAdvice.reason(error))")
        failed = true
      }
    }
    session.endWithOutput()
    if !files.isEmpty && !session.hasInputs { throw ExitCode(1) }
    loop.run()
    let broken = session.brokenLines
    if broken > 0 {
      Self.say(broken == 1 ? "skipped 1 line that is not a report" : "skipped \(broken) lines that are not reports")
    }
    if session.isEmpty { Self.say(InputAdvice.noLines) }
    if failed || session.hasFailed { throw ExitCode(1) }
  }

  private var usesColor: Bool {
    switch color {
    case .always: return true
    case .never: return false
    case .auto:
      func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
      return isatty(1) == 1 && variable("NO_COLOR").isEmpty && variable("TERM") != "dumb"
    }
  }

  private static func say(_ text: String) { StandardError.say("tail", text) }
}

extension Cause: ExpressibleByArgument {}
