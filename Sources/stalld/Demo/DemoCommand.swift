import ArgumentParser
import Glibc
import StallReport

/// `stalld demo`: a service with known stalls, watched for real and judged from outside.
struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Runs a service that stalls in known functions, and checks that each stall is reported.",
    discussion: """
      Examples:
        stalld demo
        stalld demo | stalld tail --stack -
        stalld demo | jq '{ms: .stall.duration_ms, function: .stall.culprit}'

      The service is a separate process that runs Loop.main under a StallMonitor with the default threshold of 250 ms. It \
      does short work (turns of up to 20 ms) and blocks its main loop four times: running on CPU (1300 ms), sleeping \
      (400 ms), reading from a slow peer (500 ms), and waiting for a lock that another thread holds (600 ms).

      Report lines, one JSON object each, go to standard output as they arrive; a summary goes to standard error. On a \
      terminal, only the last of the report lines is printed, after the summary. The service does not inherit \
      STALLMONITOR_ variables, so every run gives the same result.

      Exit code: 0 if exactly the planned stalls were reported, each with the right function and cause; 1 otherwise. Without \
      libdw, reports have offsets instead of names, and the demo checks the order of the stalls.
      """)

  @Flag(help: .hidden)
  var host = false

  func run() throws {
    if host { return try DemoHost.run() }
    let program = DemoProcess.executablePath()
    let judge = DemoJudge(program: program.lastPathPart ?? program)
    StandardError.say(
      "A service whose main loop stalls in four known functions. Each line below is one stall that has ended.\n")
    // A report line fills several lines of a terminal, and hides the lines between them.
    let isTerminal = isatty(STDOUT_FILENO) == 1
    var last: [UInt8] = []
    let status = try DemoProcess.run { line in
      if isTerminal { last = line } else { StandardOutput.writeOrExit("demo", line) }
      if let account = judge.take(line) { StandardError.say(account) }
    }
    let verdict = judge.verdict(hostStatus: status)
    StandardError.say("\n" + verdict.account)
    if isTerminal {
      StandardError.say("\nThe last report line:\n")
      StandardOutput.writeOrExit("demo", last)
      StandardError.say(nextSteps)
    }
    if !verdict.isGood { throw ExitCode.failure }
  }

  private var nextSteps: String {
    let command = Stalld.arguments[0]
    return """

      All report lines; the functions by stalled time; the same as a page for a browser:

        \(command) demo > demo.jsonl
        \(command) report demo.jsonl
        \(command) report --html demo.html demo.jsonl
      """
  }
}
