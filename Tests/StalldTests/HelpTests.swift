import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import stalld

/// What the command says to somebody who does not know it: help, and messages about inputs that cannot be used.
@Suite struct HelpTests {
  private static let stalld = try! Program.built("stalld", "debug").path

  static let commands = [[]] + Stalld.configuration.subcommands.map { [$0.configuration.commandName ?? ""] }

  /// Also `stalld` alone prints it.
  @Test(arguments: commands) func helpStartsWithAnExample(_ command: [String]) throws {
    let help = try Program.run(Self.stalld, command.isEmpty ? [] : command + ["--help"])
    #expect(help.status == 0)
    let blocks = help.output.split(separator: "\n\n", maxSplits: 2)
    #expect(blocks[0].hasPrefix("OVERVIEW: "))
    let lines = blocks[1].split(separator: "\n")
    #expect(lines[0] == "Example:" || lines[0] == "Examples:")
    let examples = lines.dropFirst().filter { $0.hasPrefix("  ") }
    #expect(!examples.isEmpty && examples.count == lines.count - 1, "\(blocks[1])")
    for example in examples {
      let parts = DocumentedCommands.invocations(of: "stalld", in: String(example))
      #expect(!parts.isEmpty, "\(example)")
      for arguments in parts { try DocumentedCommands.parse(arguments) }
    }
  }

  private static let fakeTime = ["x86_64", "aarch64"].map { "/usr/lib/\($0)-linux-gnu/faketime/libfaketime.so.1" }
    .first { FileManager.default.fileExists(atPath: $0) }

  /// It moves the environment, and Swift's runtime then finds no arguments: `stalld run` must not end with help and 0.
  @Test(.enabled(if: fakeTime != nil, "libfaketime is missing (Debian: libfaketime)"))
  func argumentsAreFoundUnderLibfaketime() throws {
    let environment = try ["LD_PRELOAD": #require(Self.fakeTime), "FAKETIME": "+1d"]
    #expect(try Program.run(Self.stalld, ["--version"], environment: environment).output == stalldVersion + "\n")
    let run = try Program.run(Self.stalld, ["run", "--config", "/no/such file"], environment: environment)
    #expect(run.status == 1 && run.errors.hasPrefix("/no/such file: cannot be opened: "), "\(run.errors)")
  }

  struct Wrong: Sendable, CustomTestStringConvertible {
    var arguments: String
    var status: Int32
    /// What standard error has.
    var said: String
    var testDescription: String { arguments }

    init(_ arguments: String, _ status: Int32, _ said: String) {
      (self.arguments, self.status, self.said) = (arguments, status, said)
    }
  }

  static let wrong: [Wrong] = [
    Wrong("report empty", 0, "the input has no lines; stalld demo > demo.jsonl writes some to try"),
    Wrong("report -", 0, "the input has no lines; stalld demo"),
    Wrong("report missing", 1, "missing: No such file or directory; check the name. The agent writes /var/log/stalld"),
    Wrong("report .", 1, ".: Is a directory; give the files in it, such as DIRECTORY/*.jsonl"),
    Wrong("report text", 1, "no line is a report; give lines that a service or the agent wrote"),
    Wrong("report none*.jsonl", 1, "none*.jsonl: no file matches this pattern; check it with ls"),
    Wrong("report good --service other", 0, "no stall matches --service other; remove it"),
    Wrong(
      "report good --service other --min 1s", 0,
      "no stall matches --service other and --min 1s together; remove one of them"),
    Wrong(
      "report good --service other --min 1s --since 1d", 0,
      "no stall matches --since 1d, --service other and --min 1s together; remove one of them"),
    Wrong(
      "report --diff release:1.0 release:9 good --service other", 0, "no stall matches --service other; remove it"),
    Wrong("report --html none/x good", 1, "none/x: No such file or directory; create the directory none, or give"),
    Wrong("report --limit -1 good", 64, "--limit -1 is invalid; allowed: 1 or more"),
    Wrong("report --diff good", 64, "such as --diff old.jsonl new.jsonl"),
    Wrong("tail zipped", 1, "zipped: this is a gzip file; type zcat zipped | stalld tail -"),
    Wrong("symbolicate zipped", 1, "zipped: this is a gzip file; type zcat zipped | stalld symbolicate -"),
    Wrong("check --config good", 1, "a report line; give a file of settings"),
    Wrong("report --html . good", 1, ".: Is a directory; give the name of a file, such as ./report.html"),
    Wrong(
      "report --html x --details missing good", 64, "--details missing: No such file or directory; give the directory"),
    Wrong("tail .", 1, ".: Is a directory; give the files in it"),
    Wrong("tail -", 0, "the input has no lines; stalld demo"),
    Wrong("tail --control missing", 1, "no agent responds at missing: no such socket; start it (systemctl start"),
    Wrong("status --control text", 1, "no agent responds at text: not a socket; name the agent's control socket"),
    Wrong("status --control missing", 1, "no such socket; start it (systemctl start stalld.socket stalld.service, or"),
    Wrong("symbolicate empty", 0, "the input has no lines; stalld demo"),
    Wrong("symbolicate text", 1, "no line is a report; give lines that"),
    Wrong("symbolicate missing", 1, "missing: No such file or directory; check the name"),
    Wrong("symbolicate .", 1, ".: Is a directory; give the files in it"),
    Wrong(
      "symbolicate --executable missing good", 64, "--executable missing: No such file or directory; check the name."),
    Wrong("symbolicate --executable . good", 64, "--executable . is a directory; use --search for directories."),
    Wrong("check --config empty", 0, "empty is empty: the defaults apply; --print shows them"),
    Wrong(
      "check --config missing", 1, "missing: cannot be opened: No such file or directory; stalld settings-reference"),
    Wrong("check --config .", 1, ".: is a directory; give the settings file in it"),
    Wrong("reload --config missing", 1, "missing: No such file or directory; name the agent's settings file"),
    Wrong("reload --control missing", 1, "no such socket; start it"),
    Wrong("tial", 64, "Error: Unexpected argument 'tial'; did you mean tail?"),
    Wrong("version", 64, "Error: Unexpected argument 'version'; stalld --version prints the version"),
    Wrong("frobnicate", 64, "Unexpected argument 'frobnicate'; subcommands: run, check, reload, status, tail, demo,"),
    Wrong("check t1.yaml", 64, "Unexpected argument 't1.yaml'; a settings file is given with --config t1.yaml."),
    Wrong("run --sockt /x", 64, "Error: Unknown option '--sockt'. Did you mean '--socket'?"),
    Wrong("run --sockt=/x", 64, "Error: Unknown option '--sockt'. Did you mean '--socket'?"),
    Wrong("check --confg x", 64, "Error: Unknown option '--confg'. Did you mean '--config'?"),
    Wrong("check --prnt", 64, "Error: Unknown option '--prnt'. Did you mean '--print'?"),
    Wrong("check --nonsense", 64, "Error: Unknown option '--nonsense'; --help lists the options."),
    Wrong("check --config", 64, "Missing value for '--config <file>'"),
    Wrong("run t1.yaml", 64, "Unexpected argument 't1.yaml'; a settings file is given with --config t1.yaml."),
  ]

  private func inputs() throws -> ScratchDirectory {
    let scratch = try ScratchDirectory()
    for (name, text) in [("empty", ""), ("text", "hello\n"), ("good", SampleReport().text + "\n")] {
      try Data(text.utf8).write(to: scratch.url.appending(path: name))
    }
    try Data([0x1f, 0x8b, 8, 0, 0, 0]).write(to: scratch.url.appending(path: "zipped"))
    return scratch
  }

  @Test(arguments: wrong) func aMessageSaysWhatToDoNext(_ wrong: Wrong) throws {
    let scratch = try inputs()
    let run = try Program.run(
      Self.stalld, wrong.arguments.split(separator: " ").map(String.init), in: scratch.url, limit: 30)
    #expect(run.status == wrong.status)
    #expect(run.errors.contains(wrong.said), "\(run.errors)")
  }

  /// A file that is followed does not end, and one that is missing may come: the message comes at once.
  @Test(arguments: [
    ("missing", "missing: No such file or directory; check the name"),
    ("missing", "Waiting for the file; Ctrl-C ends the command"),
    ("empty", "empty is empty; reports appear here"),
    ("text", "text: a line that is not a report; give files of report lines"),
    ("good --service other", "no report in good matches; new ones appear here"),
  ])
  func tailSaysAtOnceWhyItIsSilent(_ arguments: String, _ said: String) throws {
    let scratch = try inputs()
    let tail = try TailTests.Tail(arguments.split(separator: " ").map(String.init), in: scratch.url)
    #expect(eventually { tail.errors.contains(said) }, "\(tail.errors)")
    #expect(tail.stop() == 0)
  }

  @Test(.enabled(if: getuid() == 0, "not root")) func aFileThatMayNotBeReadNeedsAnotherUser() throws {
    let scratch = try inputs()
    chmod(scratch.url.path, 0o755)
    let file = scratch.url.appending(path: "good").path
    chmod(file, 0)
    // tail waits until the file may be read, or for the signal.
    for (command, status) in [("report", 1), ("symbolicate", 1), ("tail", 124)] {
      let run = try Program.run(
        "/usr/bin/timeout",
        ["--signal", "INT", command == "tail" ? "5" : "60", "/usr/bin/setpriv", "--reuid", "65534", "--clear-groups"]
          + [Self.stalld, command, file])
      #expect(run.status == status)
      #expect(
        run.errors.contains("Permission denied; run as root, or as a user who may read the file"), "\(run.errors)")
    }
  }
}
