import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import stalld

/// Shell commands and settings of the documentation: they can be typed as they are written.
@Suite struct SnippetTests {
  /// A fence says what it has, so that each block has its test; ``Snippet/judge`` has the exceptions with their reasons.
  @Test func eachSnippetHasItsTest() {
    #expect(Snippet.all.count > 70)
    #expect(Snippet.all(.unknown).map(\.testDescription) == [])
    #expect(Snippet.all.filter { if case .exempt = $0.judge { true } else { false } }.count <= 5)
    #expect(Snippet.all(.shell).count > 30 && Snippet.all(.settings).count >= 1)
  }

  // MARK: Shell

  /// Programs that pages use, and that are no part of this repository.
  private static let others: Set<String> = [
    "apt", "apt-get", "cat", "cc", "cd", "curl", "duckdb", "export", "flamegraph.pl", "git", "go", "grep", "head",
    "install",
    "journalctl", "jq", "kill", "sleep", "mkdir", "nc", "podman", "printf", "sha256sum", "systemctl",
    "systemd-sysusers",
    "systemd-tmpfiles",
  ]

  @Test(arguments: Snippet.all(.shell)) func theShellReadsItAndWhatItCallsExists(_ snippet: Snippet) throws {
    let scratch = try ScratchDirectory()
    let script = scratch.url.appending(path: "snippet.sh")
    try Data(snippet.code.utf8).write(to: script)
    let syntax = try Program.run("/bin/bash", ["-n", script.path])
    #expect(syntax.status == 0 && syntax.errors == "", "\(syntax.errors)")
    // Without documents in it, and with continued lines joined.
    let text = snippet.code.replacing(/<<'END'.*\n(?:.*\n)*?END\n/) { _ in "\n" }.replacing("\\\n", with: " ")
    var count = 0
    for line in text.split(separator: "\n") {
      for command in DocumentedCommands.commands(in: String(line)) {
        try judge(command, in: snippet)
        count += 1
      }
    }
    #expect(count > 0)
  }

  private func judge(_ command: [String], in snippet: Snippet) throws {
    let words = command.drop { $0 == "sudo" || $0.contains("=") && !$0.hasPrefix("-") }
    guard let program = words.first else { return }
    let arguments = Array(words.dropFirst())
    switch program.split(separator: "/").last.map(String.init) ?? program {
    case "stalld": try DocumentedCommands.parse(arguments)
    case "make":
      for target in Self.targets(arguments) {
        try expectTarget(target, of: folder(of: snippet), in: snippet.testDescription)
      }
    case "swift": try expectProduct(arguments, in: snippet)
    case let name where program.contains("/"):
      // A path in the repository, or a program that somebody has built.
      let folder = program.split(separator: "/")[0]
      guard ["scripts", "Benchmarks", "Tests", "Sources"].contains(folder) else { return }
      #expect(FileManager.default.isExecutableFile(atPath: Repository.file(program).path), "\(snippet): \(name)")
    default: #expect(Self.others.contains(program), "\(snippet.testDescription): \(program)")
    }
  }

  private static func targets(_ arguments: [String]) -> [String] {
    arguments.filter { !$0.contains("=") && !$0.hasPrefix("-") }
  }

  private func expectTarget(_ target: String, of folder: URL, in place: String) throws {
    let makefile = try String(contentsOf: folder.appending(path: "Makefile"), encoding: .utf8)
    #expect(makefile.contains("\n\(target):"), "\(place): make \(target)")
  }

  /// An example has a package, or a Makefile, of its own.
  private func folder(of snippet: Snippet) -> URL {
    let isExample = snippet.page.hasPrefix("Examples/")
    return isExample ? Repository.file(snippet.page).deletingLastPathComponent() : Repository.root
  }

  /// A product that is built, or a program that is run, is in the package.
  private func expectProduct(_ arguments: [String], in snippet: Snippet) throws {
    #expect(["build", "run", "test", "package"].contains(arguments.first), "\(snippet.testDescription): \(arguments)")
    let isExample = snippet.page.hasPrefix("Examples/")
    var name = arguments.firstIndex(of: "--product").map { arguments[$0 + 1] }
    if isExample, arguments.first == "run" { name = arguments.dropFirst().first { !$0.hasPrefix("-") } }
    guard let name else { return }
    let manifest = try String(contentsOf: folder(of: snippet).appending(path: "Package.swift"), encoding: .utf8)
    #expect(manifest.contains("name: \"\(name)\""), "\(snippet.testDescription): \(name)")
  }

  // MARK: In running text

  struct Inline: Sendable, CustomTestStringConvertible {
    var page: String
    var code: String
    var testDescription: String { "\(page): \(code)" }
  }

  /// `stalld …` and `make …` between backticks, outside of blocks.
  static let inline: [Inline] = Snippet.pages.flatMap { page in
    let text = (try? String(contentsOf: Repository.file(page), encoding: .utf8)) ?? ""
    let prose = text.split(separator: "```", omittingEmptySubsequences: false).enumerated()
      .filter { $0.offset % 2 == 0 }.map { String($0.element) }.joined()
    return prose.matches(of: /`((?:stalld|make) [^`]+)`/).map { match in
      Inline(page: page, code: String(match.1.replacing("\n", with: " ")))
    }
  }

  @Test(arguments: inline) func aCommandInAPageExists(_ inline: Inline) throws {
    guard let command = DocumentedCommands.commands(in: inline.code).first else { return }
    let arguments = Array(command.dropFirst())
    if command[0] == "make" {
      for target in Self.targets(arguments) {
        try expectTarget(target, of: Repository.root, in: inline.testDescription)
      }
      return
    }
    // A page may leave out the values of flags.
    guard let name = arguments.first, !name.hasPrefix("-"), name != "help" else { return }
    // A message begins with the command that prints it.
    if name.hasSuffix(":") { return }
    let subcommands = Stalld.configuration.subcommands
    let subcommand = try #require(subcommands.first { $0.configuration.commandName == name }, "\(name)")
    let help = Stalld.helpMessage(for: subcommand)
    for flag in arguments where flag.hasPrefix("--") && flag.count > 2 {
      let bare = String(flag.prefix { $0 != "=" })
      #expect(help.contains(bare) || bare == "--help", "\(bare)")
    }
  }

  // MARK: Settings

  @Test(arguments: Snippet.all(.settings)) func theAgentTakesTheSettings(_ snippet: Snippet) throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalld.yaml")
    try Data(snippet.code.utf8).write(to: file)
    let checked = try Program.run(Program.built("stalld", "debug").path, ["check", "--print", "--config", file.path])
    #expect(checked.status == 0 && checked.errors == "", "\(checked.errors)")
    #expect(checked.output.contains("web-canary*"))
  }

  /// Settings in running text, such as `socket: {mode: "0660"}`.
  @Test func settingsInAPageAreTaken() throws {
    var found = 0
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalld.yaml")
    for page in Snippet.pages {
      let text = try String(contentsOf: Repository.file(page), encoding: .utf8)
      for match in text.matches(
        of: /`((?:socket|control|outputs|details|metrics|limits|symbolication|services|defaults): ?[\[{][^`]*)`/)
      where !match.1.contains("…") {
        found += 1
        try Data((match.1 + "\n").utf8).write(to: file)
        let checked = try Program.run(Program.built("stalld", "debug").path, ["check", "--config", file.path])
        #expect(checked.status == 0, "\(page): \(match.1): \(checked.errors)")
      }
    }
    #expect(found > 0)
  }
}
