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
    if let text = try? JSONText(line), let error = text.string(text.root["error"]) {
      try fail("the agent at \(control) reports an error: \(error.printable)")
    }
    if json {
      Self.write(line + [0x0a])
      return
    }
    guard let status = try? JSONDecoder().decode(AgentStatus.self, from: Data(line)) else {
      try fail("cannot read the answer of the agent at \(control): it has another version; --json prints the answer")
    }
    Self.write(Array(StatusTable(status: status).text.utf8))
  }

  private func fail(_ reason: String) throws -> Never {
    StandardError.say("stalld status: \(reason)")
    throw ExitCode(1)
  }

  private static func write(_ bytes: [UInt8]) {
    // A reader that has gone is no fault.
    signal(SIGPIPE, SIG_IGN)
    var position = 0
    while position < bytes.count {
      let count = bytes.withUnsafeBytes { Glibc.write(1, $0.baseAddress! + position, $0.count - position) }
      if count < 0, errno != EINTR { return }
      position += max(0, count)
    }
  }
}
