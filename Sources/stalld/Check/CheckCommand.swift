import ArgumentParser
import Glibc

/// `stalld check`: the agent's settings, and nothing else.
struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Checks the agent's settings, and names all mistakes at once.",
    discussion: """
      It reads what stalld run with the same flags would read: the file, the STALLD_ variables and the flags, each over those \
      before. Each mistake is one line on standard error, with file and line, key, value and what is allowed. Nothing is \
      opened, made or changed.

      What good settings need of the systemd units beyond what these allow as they are shipped is said on standard error, too, with \
      the text of the drop-in, unless a drop-in has it.

      Exit code: 0 if the settings can be used, 1 if not, 64 wrong use.
      """)

  @OptionGroup var options: AgentOptions

  @Flag(help: "Write the settings in force to standard output, as YAML.")
  var print = false

  func run() throws {
    let settings = try options.loadOrExit()
    var needs = UnitNeeds(settings)
    needs.removeWhatIsThere()
    if !needs.needs.isEmpty { StandardError.say("stalld check: " + needs.text.dropLast()) }
    if print {
      let text = Array(settings.yaml.utf8)
      guard text.withUnsafeBytes({ write(STDOUT_FILENO, $0.baseAddress, $0.count) }) == text.count else {
        Talk.say("stalld: standard output: \(String(cString: strerror(errno)))")
        throw ExitCode(1)
      }
    }
  }
}

extension AgentOptions {
  /// The settings; or their mistakes on standard error, and exit code 1.
  func loadOrExit() throws -> AgentSettings {
    do {
      return try load()
    } catch {
      Talk.say(error.description)
      throw ExitCode(1)
    }
  }
}
