import ArgumentParser
import Foundation

@testable import stalld

/// Shell commands of help texts and pages.
enum DocumentedCommands {
  /// The arguments of each call of a program in a line of shell: without redirections, quotes and what follows a pipe.
  static func invocations(of program: String, in line: String) -> [[String]] {
    commands(in: line).compactMap { words in
      // Variables and sudo come before the command.
      let words = words.drop { $0 == "sudo" || $0.contains("=") && !$0.hasPrefix("-") }
      guard let first = words.first, first.split(separator: "/").last.map(String.init) == program else { return nil }
      return Array(words.dropFirst())
    }
  }

  /// The words of each command of a line.
  static func commands(in line: String) -> [[String]] {
    var commands: [[String]] = [[]]
    var word: String?
    var quote: Character?
    func end(_ word: inout String?) {
      if let word { commands[commands.count - 1].append(word) }
      word = nil
    }
    var characters = line[...]
    scan: while let character = characters.popFirst() {
      if let open = quote {
        if character == open { quote = nil } else { word = (word ?? "") + String(character) }
        continue
      }
      switch character {
      case "'", "\"": (quote, word) = (character, word ?? "")
      case " ", "\t": end(&word)
      case "#" where word == nil: break scan
      case "|", "&", ";":
        end(&word)
        commands.append([])
      case "<", ">":
        // The number of a descriptor, or nothing, comes before.
        if word?.allSatisfy(\.isNumber) == true { word = nil }
        end(&word)
        characters = characters.drop { "<>& ".contains($0) }.drop { !" |;&".contains($0) }
      case "\\": word = (word ?? "") + String(characters.popFirst() ?? " ")
      default: word = (word ?? "") + String(character)
      }
    }
    end(&word)
    return commands.filter { !$0.isEmpty }
  }

  /// Throws if `stalld` does not take the arguments; files need not exist.
  static func parse(_ arguments: [String]) throws {
    do {
      _ = try Stalld.parseAsRoot(arguments)
    } catch {
      let message = Stalld.fullMessage(for: error)
      // What is checked of the machine, and not of the words.
      let isOfTheMachine = ["is not a directory", "No such file", "is not an ELF"].contains { message.contains($0) }
      if !isOfTheMachine, Stalld.exitCode(for: error) != .success {
        throw Wrong(arguments: arguments, message: message)
      }
    }
  }

  struct Wrong: Error, CustomStringConvertible {
    var arguments: [String]
    var message: String
    var description: String { "stalld \(arguments.joined(separator: " ")): \(message)" }
  }
}
