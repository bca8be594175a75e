import ArgumentParser
import Glibc

/// `stalld demo`: a host with known stalls, watched for real and judged from outside.
struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Runs a host that stalls in known ways, and checks that each stall is reported.",
    discussion: """
      The host is a process of its own that runs Loop.main under a StallMonitor with the default threshold of 250 ms. It \
      does healthy work all along (turns of up to 20 ms), and blocks its main loop four times: computing (1300 ms), \
      sleeping (400 ms), reading from a slow peer (500 ms), and waiting for a lock that another thread holds (600 ms).

      Its report lines, one JSON object each, go to standard output as they come; an account for people goes to standard \
      error. STALLMONITOR_ variables of the caller are not passed on, so that the demo always shows the same.

      Exit code: 0 if each planned stall was reported with its function as the culprit, and nothing else was; 1 if not. Of \
      a program that is stripped of names, the function's offset is reported, and its turn is what is checked.

      Try:  stalld demo | jq '{event: .event.name, culprit: .stall.culprit, ms: .stall.duration_ms}'
      """)

  @Flag(help: .hidden)
  var host = false

  func run() throws {
    if host { return try DemoHost.run() }
    let program = DemoProcess.executablePath()
    let judge = DemoJudge(program: program.split(separator: "/").last.map { String($0) } ?? program)
    Talk.say("A host whose main loop stalls in four known ways. Each line below is one stall, when it has ended.\n")
    let status = try DemoProcess.run { line in
      line.withUnsafeBytes { bytes in _ = write(STDOUT_FILENO, bytes.baseAddress, bytes.count) }
      if let account = judge.take(line) { Talk.say(account) }
    }
    let verdict = judge.verdict(hostStatus: status)
    Talk.say("\n" + verdict.account)
    if !verdict.isGood { throw ExitCode.failure }
  }
}

/// What is said to people: on standard error.
enum Talk {
  static func say(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
