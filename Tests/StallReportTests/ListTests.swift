import Foundation
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallReport
@testable import stalld

/// Lists that a table in the code cannot make are compared with it.
struct ListTests {
  func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  /// A list of words in the schema.
  private func words(_ path: String...) throws -> [String] {
    let schema = try JSONText(Array(text("Config/schema/stall-report.schema.json").utf8))
    var value: JSONText.Value? = schema.root
    for key in path { value = value?["properties"]?[key] }
    return (value?["enum"]?.elements ?? []).compactMap { schema.string($0) }
  }

  @Test func causesOfTheSchema() throws {
    #expect(try words("stall", "cause") == Cause.allCases.map(\.rawValue))
  }

  @Test func wordsOfANoticeAreTheReports() {
    let causes: [StallNotice.Cause] = [
      .running, .lock, .io, .sleep, .starved, .throttled, .fault, .stopped, .unknown,
    ]
    #expect(causes.map(\.rawValue) == Cause.allCases.map(\.rawValue))
    let events: [StallNotice.Event] = [.started, .ongoing, .ended]
    #expect(events.map(\.rawValue) == [Report.Event.started, .ongoing, .ended].map(\.rawValue))
  }

  /// On a busy machine tests accept for a stall on CPU what is ready to run, and a first line that has seen too little.
  @Test func causesAndFailuresThatTestsAccept() throws {
    for cause in Cause.allCases {
      let report = try WrittenReport(#"{"stall":{"cause":"\#(cause.rawValue)","evidence":{"throttled_ms":1}}}"#)
      #expect(report.isCaused(by: "running") == cause.isReady, "\(cause)")
    }
    #expect(WrittenReport.notSampled == CaptureFailure.notSampled.rawValue)
    // `scripts/run-corpus` reads the names of the cases.
    for cause in Cause.allCases { #expect("\(cause)" == cause.rawValue) }
  }

  /// The page makes class names of them, and `stalld tail` has a column for them.
  @Test func namesOfCausesFit() {
    for cause in Cause.allCases { #expect(cause.rawValue.wholeMatch(of: /[a-z]+/) != nil, "\(cause)") }
    #expect(Cause.allCases.map(\.rawValue.count).max() == TailPrinter.causeWidth)
  }

  @Test func loopsOfTheSchema() throws {
    let kinds = LoopKind.allCases.map(\.rawValue)
    #expect(try words("loop", "kind") == kinds)
    #expect(try Set(words("loop", "phase")) == Set(LoopPhase.allCases.map(\.rawValue)))
    // The table of Hosts.md has the kind of each service's loops.
    let hosts = try text("Documentation/Hosts.md")
    for kind in kinds { #expect(hosts.contains("`\(kind)`"), "\(kind)") }
    for kind in LoopDescription.Kind.Value.allCases.map(LoopDescription.Kind.init) {
      #expect(kind.description == kind.loopKind.rawValue)
    }
    let statuses: [WatchedLoopStatus.Kind] = [
      .loop, .foundation, .nio, .executor, .c, .mainQueue, .taskPool, .cooperativePool,
    ]
    #expect(statuses.map(\.rawValue) == LoopKind.allCases.map(\.rawValue))
  }

  @Test func eventsAndMethodsOfTheSchema() throws {
    #expect(try Set(words("event", "name")) == Set(Report.Event.allCases.map(\.rawValue)))
    let schema = try text("Config/schema/stall-report.schema.json")
    let methods = CaptureMethod.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    #expect(schema.contains("\"enum\": [\(methods)]"))
  }

  @Test func lockKindsOfTheSchema() throws {
    #expect(try Set(words("stall", "evidence", "lock_kind")) == Set(LockHolder.Kind.allCases.map(\.rawValue)))
  }

  @Test func whatAThreadWaitsForInTheSchema() throws {
    let others = WaitedFor.allCases.filter { $0 != .thread }
    #expect(try Set(words("stall", "evidence", "waits_for")) == Set(others.map(\.rawValue)))
  }

  @Test func rolesOfThreadsInTheSchema() throws {
    let schema = try text("Config/schema/stall-report.schema.json")
    let roles = Report.OtherThread.Role.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    #expect(schema.contains("\"enum\": [\(roles)]"))
  }

  @Test("the page has a colour for each cause: light, dark and printed")
  func colorsOfThePage() throws {
    let style = try text("Sources/stalld/Report/HTML/Page/page.css")
    for cause in Cause.allCases {
      let name = cause.rawValue
      #expect(style.components(separatedBy: "--\(name): #").count - 1 == 3, "\(name)")
      #expect(style.contains(".c-\(name) { color: var(--\(name)); fill: var(--\(name)); }"), "\(name)")
    }
  }

  @Test("the manual of the page has a row for each cause")
  func causesOfTheManual() throws {
    // The first table that has names.
    let rows = try text("Documentation/Reports.md").components(separatedBy: "\n")
      .drop { !$0.contains("| `") }.prefix { $0.contains("| `") }
    #expect(
      rows.compactMap { $0.split(separator: "`").dropFirst().first.map(String.init) } == Cause.allCases.map(\.rawValue))
  }

  @Test func colorsOfFirefoxDiffer() {
    #expect(Set(Cause.allCases.map(\.firefoxColor)).count == Cause.allCases.count)
  }

  @Test("CSV, JSON, the table and the page show the same columns")
  func columns() throws {
    let page = try text("Documentation/Analysis.md")
    let names = GroupColumn.all.map(\.name)
    #expect(Set(names).count == names.count)
    for grouping in Grouping.allCases {
      let table = GroupColumn.table(grouping).map(\.column.name)
      // A terminal has no space for these.
      let missing = Set(
        ["suppressed", "fatal"] + [Grouping.culprit, .cause].filter { $0 == grouping }.map(\.rawValue))
      #expect(Set(table).count == table.count && Set(names).subtracting(table) == missing)
    }
    for (_, heading) in GroupColumn.table(.cause) + GroupColumn.table(.culprit) {
      let title = heading.title.prefix { $0 != "(" }.trimmingCharacters(in: .whitespaces)
      #expect(page.contains("`\(title)`"), "Analysis.md: \(title)")
    }
    // The page shows the key, and finds a culprit in its stack.
    #expect(GroupColumn.all.filter { $0.pageName == nil }.map(\.name) == ["culprit"])
  }

  @Test("the page shows each column, and recomputes the columns that depend on the filter")
  func columnsOfThePage() throws {
    let ranking = try text("Sources/stalld/Report/HTML/Page/ranking.js")
    let model = try text("Sources/stalld/Report/HTML/Page/model.js")
    let reset = try #require(model.split(separator: "\n").first { $0.contains("{ ...data.groups[number], number, ") })
    for name in GroupColumn.all.compactMap(\.pageName) {
      #expect(ranking.contains("group.\(name)"), "\(name)")
      if name != "key", name != "cause" {
        let computed = try Regex("(group\\.\(name) \\+=|\(name): .*[(])")
        #expect(reset.contains(" \(name): ") && model.contains(computed), "\(name)")
        // Reports.md promises that each other column is empty where the page has no single stalls.
        if name != "ms", name != "count" { #expect(reset.contains(" \(name): null"), "\(name)") }
      }
    }
    for grouping in Grouping.allCases { #expect(ranking.contains(" \(grouping.rawValue): '"), "\(grouping)") }
  }

  @Test(
    "each folder of log shipper configurations is documented, and is tested or marked as not run")
  func shippers() throws {
    let others = ["schema", "fleet", "grafana", "prometheus"]
    let folders = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Config").path)
      .filter { !others.contains($0) && !$0.hasSuffix(".yaml") }
    #expect(folders.count >= 9)
    let arguments = try text("Tests/StalldTests/MonitoringTests.swift"),
      run = try text("Tests/StalldTests/Shipper.swift")
    let table = try text("Documentation/Fleet.md").split(separator: "\n").filter { $0.hasPrefix("| ") }
    for folder in folders {
      let rows = table.filter { $0.contains("](../Config/\(folder)/") }
      #expect(!rows.isEmpty, "Fleet.md: \(folder)")
      let files = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Config/\(folder)").path)
      let isMarked = try files.contains { try text("Config/\(folder)/\($0)").contains("Not run in CI") }
      // The file is an argument of `shippersThatAreNotRun`, or the program is one of `Shipper.Kind`.
      let judged =
        isMarked ? files.allSatisfy { arguments.contains("\"\(folder)/\($0)\"") } : run.contains("\"Config/\(folder)/")
      #expect(judged || ["journald", "logrotate"].contains(folder), "no test knows Config/\(folder)")
      #expect(
        rows.allSatisfy { $0.contains("| not run |") == isMarked && $0.contains("| tested, ") != isMarked }, "\(folder)"
      )
    }
  }

  @Test("AgentProtocol.md has a client's share of each limit")
  func limitsOfTheProtocol() throws {
    let page = try text("Documentation/AgentProtocol.md")
    let keys = AgentSettings.keys.map(\.name).filter { $0.hasPrefix("limits.") || $0.hasPrefix("details.") }
    #expect(keys.count >= 11)
    // A place is no limit.
    for key in keys where key != "details.directory" { #expect(page.contains("`\(key)`"), "\(key)") }
    // A limit that is only read from the file limits nothing.
    let agent = Repository.file("Sources/stalld/Agent")
    let uses = try FileManager.default.subpathsOfDirectory(atPath: agent.path)
      // `Ingest.swift` passes them on.
      .filter { $0.hasSuffix(".swift") && !$0.hasPrefix("Settings/") && $0 != "Ingest/Ingest.swift" }
      .map { try text("Sources/stalld/Agent/\($0)") }.joined()
    let details = try ["DetailDirectory", "DetailStore"].map { try text("Sources/stalld/Agent/Output/\($0).swift") }
      .joined()
    for key in keys {
      let words = key.split(separator: ".")[1].split(separator: "_")
      let property = words[0] + words.dropFirst().map(\.capitalized).joined()
      // Outputs have limits of the same names.
      let isUsed = key.hasPrefix("details.") ? details.contains("settings.\(property)") : uses.contains(".\(property)")
      #expect(isUsed, "\(key) is used nowhere")
    }
  }

  @Test("frames of each target and each package of Integrations count as the monitor's")
  func modulesOfTheMonitor() throws {
    let table = try text("Documentation/ARCHITECTURE.md").components(separatedBy: "\n## ")[1]
    // The command runs in no watched process.
    let targets = table.matches(of: /^\| `(\w+)` \|/.anchorsMatchLineEndings()).map { $0.1 }
      .filter { !["stalld", "StallMonitorElsewhere", "LoopEngineElsewhere"].contains($0) }
    let inC = targets.filter { $0.wholeMatch(of: /C[A-Z]\w*/) != nil }
    let integrations = try Repository.integrations.map { Substring($0.name) }
    #expect(MonitorCode.modules == Set(targets).subtracting(inC).union(integrations))
    #expect(Set(MonitorCode.functions) == Set(inC.map { $0.lowercased().replacing("cstall", with: "stall") + "_" }))
  }

  @Test("each page that lists integrations has all of them")
  func integrationsInPages() throws {
    for integration in try Repository.integrations {
      for page in ["README.md", "Documentation/README.md", "Documentation/Hosts.md", "Documentation/Versioning.md"] {
        #expect(try text(page).contains(integration.name), "\(page): \(integration.name)")
      }
    }
  }

  @Test("each package that an integration is for has a row of modules")
  func librariesOfIntegrations() throws {
    let known = Set(LoopLibrary.all.flatMap(\.modules))
    for package in try Set(Repository.integrations.map { $0.folder.split(separator: "/")[1] }) {
      let manifest = try text("Integrations/\(package)/Package.swift")
      let libraries = manifest.components(separatedBy: "    .target(").dropFirst()
      #expect(!libraries.isEmpty, "\(package)")
      for library in libraries {
        let own = library.components(separatedBy: "\n    .").first ?? ""
        for product in own.matches(of: /\.product\(name: "(\w+)"/) where product.1 != "StallMonitor" {
          #expect(known.contains(String(product.1)), "\(package): \(product.1)")
        }
      }
    }
  }

  /// Otherwise `Culprit.callout` never sees where their piece of work ends.
  @Test("each runtime library has a list of its functions that call the service")
  func callersOfLibraries() throws {
    let rules = try text("Tests/Corpus/fingerprints/README.md")
    for library in LoopLibrary.all where library.owner == .runtime && !library.modules.isEmpty {
      #expect(!library.callers.isEmpty || library.callerWord != nil, "\(library.name)")
    }
    for word in LoopLibrary.all.flatMap({ $0.callers + [$0.callerWord].compactMap { $0 } }) {
      #expect(rules.contains("`\(word)`"), "Tests/Corpus/fingerprints/README.md: \(word)")
    }
  }

  @Test("the page reads a stall's row as it is written")
  func rowsOfThePage() throws {
    let model = try text("Sources/stalld/Report/HTML/Page/model.js")
    let line = try #require(model.split(separator: "\n").first { $0.hasPrefix("const START = ") })
    let positions = line.matches(of: /(\w+) = (\d+)/).compactMap { match in Int(match.2).map { (String(match.1), $0) } }
    #expect(positions.map(\.1) == Array(0..<positions.count))
    let row = PageModel.Row(
      start: 0, milliseconds: 1, cause: 2, group: 3, service: 4, host: 5, stack: 6, state: 7, count: 8, id: "9",
      loop: 10)
    let names = Mirror(reflecting: row).children.compactMap { $0.label?.uppercased() }
    #expect(positions.map(\.0) == names.map { $0 == "MILLISECONDS" ? "MS" : $0 })
    // Each has its position for its value.
    var json = JSONWriter()
    json.array([row]) { $1.write(into: &$0) }
    let written = String(decoding: json.bytes, as: UTF8.self).filter { $0 != "[" && $0 != "]" && $0 != "\"" }
    #expect(written.split(separator: ",").compactMap { Double($0) } == positions.map { Double($0.1) })
  }

  @Test("each function that makes a timer has all options of timers")
  func optionsOfTimers() throws {
    var signatures: [[String]] = []
    // What says when they fire, and where: they differ in it.
    let others: Set = ["date", "delay", "interval", "repeats", "order", "target", "mode", "modes", "body"]
    for file in ["Timers/LoopTimer.swift", "Timers/Loop+Timers.swift", "Scheduling/LoopWork.swift"] {
      for declaration in try text("Sources/LoopEngine/\(file)").components(separatedBy: " public ").dropFirst()
      where declaration.starts(with: #/(?:convenience init|init|func perform\w*)\(\s+(?:at|after|every)\b/#) {
        let signature = declaration.prefix(upTo: try #require(declaration.firstRange(of: #/\n *\) [{\-]/#)).lowerBound)
        let options = signature.matches(of: #/(\w+):\s/#).map { String($0.1) }
        signatures.append(options)
        // All but the first initializer pass their options to another one.
        for option in options where !others.contains(option) && !declaration.starts(with: "init(\n      at") {
          let use = "\(option): \(option)"
          #expect(declaration[signature.endIndex...].contains(use), "\(use): \(signature)")
        }
      }
    }
    #expect(signatures.count == 8)
    // Options that only a repeating timer has a use for.
    let ofRepetition: Set<String> = []
    for option in Set(signatures.joined()).subtracting(others) {
      for signature in signatures
      where !ofRepetition.contains(option) || signature.contains("interval") || signature.contains("repeats") {
        #expect(signature.contains(option), "\(option)")
      }
    }
  }

  /// Passes over parts of the input number texts by themselves: merging them changes the members in this list.
  @Test func textsOfAStall() {
    let stall = Stall(idHigh: 0, idLow: 0, start: 0, milliseconds: 0, sequence: 0, state: .ended)
    let numbers = Mirror(reflecting: stall).children.filter { $0.value is UInt32 }.compactMap(\.label)
    let others: Set = ["stack", "group", "count", "sequence"]
    #expect(Set(numbers).isSuperset(of: others))
    #expect(numbers.filter { !others.contains($0) }.count == Stall.texts.count)
  }

  /// The library's constant is for all platforms.
  @Test func longestPathsOfSockets() {
    let longest = StallMonitorConfiguration.longestSocketPath
    #expect(SettingType<String>.socketPath.allowed.contains(" \(longest) bytes"))
  }
}
