import ArgumentParser
import FoundationEssentials
import Glibc
import StallMonitor
import StallReport

/// `stalld status`: what the running agent does.
struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Shows the state of the running agent: outputs, connected services, latest stalls.",
    discussion: """
      Examples:
        stalld status
        stalld status --control ~/stalld/control.sock --json

      Exit code: 0; 1 if no agent responds within two seconds; 64 usage error.
      """)

  @Flag(help: "Print the agent's answer: one JSON object on one line.")
  var json = false

  @Option(help: ArgumentHelp("The agent's control socket.", valueName: "path"))
  var control = ControlClient.defaultPath

  func run() throws {
    let line: [UInt8]
    do {
      let client = try ControlClient(path: control, request: #"{"status":{}}"#)
      line = try client.line()
    } catch {
      try fail("\(error)")
    }
    let answer = try? JSONText(line)
    if let answer, let error = answer.string(answer.root["error"]) {
      try fail("the agent at \(control) reports an error: \(error)")
    }
    if json {
      StandardOutput.writeOrExit("status", TerminalText.json(line) + [0x0a])
      return
    }
    // Hostile JSON is refused by the reader above; the decoder knows the members' names.
    guard answer != nil, let status = try? JSONDecoder().decode(AgentStatus.self, from: Data(line)) else {
      try fail("cannot read the answer of the agent at \(control): it has another version; --json prints the answer")
    }
    StandardOutput.writeOrExit("status", Array(StatusTable(status: status).text.utf8))
  }

  private func fail(_ reason: String) throws -> Never {
    StandardError.say("status", reason)
    throw ExitCode(1)
  }
}
