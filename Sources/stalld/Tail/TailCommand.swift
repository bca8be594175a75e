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
    abstract: "Follows reports as they come, one readable line each.",
    discussion: """
      Without a file it follows the running agent. A file of JSON lines is followed across its rotation by rename; standard input (-) and \
      pipes are read to their end. Lines that are no reports are skipped, and counted on standard error at the end.

      Colours only on a terminal, and not if NO_COLOR is set, unless --color says otherwise.

      Exit code: 0 after SIGINT, SIGTERM or the end of what is read, and when nobody reads the output any more; 1 if there is no agent, it goes \
      away, or a file can't be read; 64 wrong use.
      """)

  @Option(help: ArgumentHelp("Only services whose name matches the pattern, such as 'web*'.", valueName: "glob"))
  var service: String?

  @Option(name: .customLong("cause"), help: "Only stalls with this cause; may be repeated.")
  var causes: [Cause] = []

  @Option(
    name: .customLong("min"),
    help: ArgumentHelp("Only stalls that last at least so long, such as 500ms.", valueName: "duration"),
    transform: { try TailCommand.milliseconds($0) })
  var leastMilliseconds: Double?

  @Flag(help: "The lines as they are, one JSON object each.")
  var json = false

  @Flag(help: "The stack below each line.")
  var stack = false

  @Option(help: "How many of the lines before to look at first; the agent keeps 50.")
  var lines = 10

  @Option(help: "Colours: auto, always or never.")
  var color = Color.auto

  @Option(help: ArgumentHelp("The agent's control socket.", valueName: "path"))
  var control = ControlClient.defaultPath

  @Argument(help: "Files of report lines to follow; - is standard input.")
  var files: [String] = []

  func validate() throws {
    guard lines >= 0 else { throw ValidationError("--lines \(lines): 0 or more is allowed.") }
  }

  func run() throws {
    let loop = Loop.main
    // Before there are other threads: they inherit the blocked signals.
    let stopSignals = try Loop.SignalSource([SIGINT, SIGTERM], name: "stop signals") { _ in loop.stop() }
    try loop.add(stopSignals)
    // A reader that goes is told by EPIPE.
    signal(SIGPIPE, SIG_IGN)
    let filter = TailFilter(
      service: service, causes: Set(causes.map(\.rawValue)), leastMilliseconds: leastMilliseconds ?? 0)
    let printer = json ? nil : TailPrinter(usesColor: usesColor, showsStack: stack)
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
        if file == "-" { session.readStandardInput() } else { try session.follow(file, lines: lines) }
      } catch {
        Self.say("\(file): \(error)")
        failed = true
      }
    }
    session.endWithOutput()
    if !files.isEmpty && !session.hasInputs { throw ExitCode(1) }
    loop.run()
    let broken = session.brokenLines
    if broken > 0 { Self.say(broken == 1 ? "1 line was no report" : "\(broken) lines were no reports") }
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

  /// `500ms`: a number with its unit.
  static func milliseconds(_ text: String) throws -> Double {
    for (unit, factor) in [("us", 0.001), ("ms", 1), ("min", 60_000), ("s", 1000), ("h", 3_600_000)]
    where text.hasSuffix(unit) {
      guard let number = Double(text.dropLast(unit.count)), number.isFinite, number >= 0 else { break }
      return number * factor
    }
    throw ValidationError("a number with us, ms, s, min or h is allowed, such as 500ms.")
  }

  private static func say(_ text: String) { StandardError.say("stalld tail: \(text)") }
}

extension Cause: ExpressibleByArgument {}
