import Foundation
import TestSupport
import Testing

/// State of the process and of its threads is listed, with its reason, in Documentation/ProcessState.md.
@Suite struct ProcessStateTests {
  /// A row of the list, or what the sources have.
  private struct Entry: Hashable, CustomStringConvertible {
    var target: String
    var name: String
    var description: String { "\(target): \(name)" }
  }

  private let listed: Set<Entry>
  private let targets: [String]

  init() throws {
    let text = try String(contentsOf: Repository.file("Documentation/ProcessState.md"), encoding: .utf8)
    listed = Set(
      text.split(separator: "\n").compactMap { line in
        let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 6, cells[0].hasPrefix("`") else { return nil }
        return Entry(target: cells[1], name: cells[0].trimmingCharacters(in: ["`"]))
      })
    targets = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Sources").path).sorted()
  }

  @Test func everyRowHasAReason() throws {
    let text = try String(contentsOf: Repository.file("Documentation/ProcessState.md"), encoding: .utf8)
    for line in text.split(separator: "\n") where line.hasPrefix("| `") {
      #expect(line.split(separator: "|").count == 6, "\(line)")
      #expect(line.split(separator: "|").allSatisfy { !$0.allSatisfy(\.isWhitespace) }, "\(line)")
    }
    #expect(!listed.isEmpty)
  }

  @Test func swiftsStateIsListed() throws {
    let found = Set(
      try targets.flatMap { target in
        try files(under: Repository.file("Sources/\(target)"), ending: ".swift").flatMap { file in
          try stateOfSwift(in: file).map { Entry(target: target, name: $0) }
        }
      })
    let isOfC = Set(try targetsInC())
    let expected = listed.filter { !isOfC.contains($0.target) }
    #expect(found.subtracting(expected) == [], "state that is not in Documentation/ProcessState.md")
    #expect(expected.subtracting(found) == [], "rows without state")
    #expect(found.contains { $0.name == "StallMonitor.active" })
  }

  /// As the object files have it: a variable that is not constant, in a function or outside of one.
  @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/objdump"), "objdump is missing"))
  func stateOfCIsListed() throws {
    let inC = try targetsInC()
    var found: Set<Entry> = []
    for target in inC {
      let sources = Repository.file("Sources/\(target)")
      let objects = try Victim.Build.debug.executable("StallVictim").deletingLastPathComponent()
        .appending(path: "\(target).build")
      for source in try files(under: sources, ending: ".c") {
        let object = objects.appending(path: source.path.dropFirst(sources.path.count + 1) + ".o")
        // What no test program links is not built.
        guard FileManager.default.fileExists(atPath: object.path) else { continue }
        for name in try variables(of: object) { found.insert(Entry(target: target, name: name)) }
      }
      // Variables of a header are in the objects that include it.
      for header in try files(under: sources, ending: ".h") {
        for name in try variables(ofHeader: header) { found.insert(Entry(target: target, name: name)) }
      }
    }
    let expected = listed.filter { inC.contains($0.target) }
    #expect(found.subtracting(expected) == [], "variables that are not in Documentation/ProcessState.md")
    #if arch(x86_64)
    #expect(expected.subtracting(found) == [], "rows without a variable")
    #endif
  }

  // MARK: Reading the sources

  private func targetsInC() throws -> [String] {
    try targets.filter { try !files(under: Repository.file("Sources/\($0)"), ending: ".c").isEmpty }
  }

  private func files(under directory: URL, ending: String) throws -> [URL] {
    let all = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil)
    return (all?.compactMap { $0 as? URL } ?? []).filter { $0.path.hasSuffix(ending) }
  }

  /// The global and static variables of a file that change, or whose value is computed from more than constants.
  private func stateOfSwift(in file: URL) throws -> [String] {
    let declaration =
      /^(\s*)((?:(?:public|package|private|fileprivate|final|nonisolated\(unsafe\)|@\w+)\s+)*)(static\s+)?(let|var)\s+(\w+)\s*(:[^={]*)?(?:=\s*(.*))?$/
    let type = /^(\s*)(?:[\w@()]+\s+)*(?:class|struct|enum|extension|actor)\s+([\w.]+)/
    let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
    var types: [(indentation: Int, name: Substring)] = []
    var found: [String] = []
    for (index, line) in lines.enumerated() {
      if let match = line.firstMatch(of: type), !line.drop(while: \.isWhitespace).hasPrefix("//") {
        types.removeAll { $0.indentation >= match.1.count }
        types.append((match.1.count, match.2))
      }
      guard let match = line.firstMatch(of: declaration), match.3 != nil || match.1.isEmpty, var value = match.7 else {
        continue
      }
      if value.isEmpty, index + 1 < lines.count { value = lines[index + 1].drop(while: \.isWhitespace) }
      guard match.4 == "var" || match.2.contains("unsafe") || isState(value, of: match.6 ?? "") else { continue }
      let name = types.last { $0.indentation < match.1.count }?.name
      found.append(name.map { "\($0).\(match.5)" } ?? String(match.5))
    }
    return found
  }

  /// Whether a constant of this value can change, or is computed when it is first used.
  private func isState(_ value: Substring, of type: Substring) -> Bool {
    if (type + value).contains(/Mutex|Atomic|Guarded|Lazy|\.random\(/) { return true }
    // A closure, an object without arguments, a function of the system.
    if value.hasPrefix("{") || value.contains(/^[A-Z][\w.]*(?:<[^>]*>)?\(\)$/) { return true }
    return value.contains(
      /\b(?:getenv|getpid|sysconf|dlsym|open|pthread_\w+|c(?:linux|unwind|symbols)_\w+|\w+(?:Socket|File|Stream))\(|FileHandle\./
    )
  }

  /// The variables that a header defines: statics that are not constant, outside of functions or in
  /// one that is inlined.
  private func variables(ofHeader header: URL) throws -> [String] {
    let text = try String(contentsOf: header, encoding: .utf8)
    return text.matches(
      of: /^\s*static (?!inline\b|const\b)[^(){};=]*?(\w+)(?:\[[^\]]*\])?\s*(?:=[^;]*)?;/.anchorsMatchLineEndings()
    )
    .map { String($0.1) }
  }

  private func variables(of object: URL) throws -> [String] {
    let symbols = try Program.run("/usr/bin/objdump", ["--syms", object.path])
    #expect(symbols.status == 0, "\(symbols.errors)")
    // Address, flags, section, size, name. Constants with addresses in them are in .data.rel.ro.
    return symbols.output.split(separator: "\n").compactMap { line in
      guard let name = line.split(separator: " ").last, !name.hasPrefix("."),
        line.contains(#/ (?:\.t?bss|\.t?data|\*COM\*)[\s.]/#), !line.contains(".data.rel.ro")
      else { return nil }
      return String(name)
    }
  }
}
