import Foundation
import StallMonitor
import TestSupport
import Testing

@testable import stalld

/// The agent's settings: the file, the variables and the flags.
struct SettingsTests {
  private let scratch: ScratchDirectory
  private let file: AgentSettings.File

  init() throws {
    scratch = try ScratchDirectory()
    file = AgentSettings.File(path: scratch.url.appending(path: "stalld.yaml").path, isRequired: true)
  }

  private func load(
    _ text: String, environment: [String: String] = [:], flags: AgentSettings.Flags = .init()
  ) throws -> AgentSettings {
    try Data(text.utf8).write(to: URL(fileURLWithPath: file.path))
    return try AgentSettings.load(file: file, environment: environment, flags: flags)
  }

  /// The lines that a person gets, without the file's directory.
  private func mistakes(
    _ text: String, environment: [String: String] = [:], flags: AgentSettings.Flags = .init()
  ) throws -> [String] {
    do {
      _ = try load(text, environment: environment, flags: flags)
      return []
    } catch let error as SettingsErrors {
      return error.description.replacing(file.path, with: "F").split(separator: "\n").map(String.init)
    }
  }

  // MARK: What may be said

  static let everything = """
    socket:
      path: /run/a.sock
      mode: "0660"
      group: root
      allow: {users: [root, 65534], groups: ["0"]}
    control: {path: '/run/b.sock'}
    limits:
      lines_per_second: 1000
      user_lines_per_second: 3000
      user_bytes_per_day: 1GiB
      line_bytes: 64KiB
      connections: 10
      connections_per_user: 5
      memory: 1.5MiB
      incomplete_line_timeout: 1min
    outputs:
      - type: file
        path: /var/log/x.jsonl
        mode: "0600"
        max_size: 1GB
        max_age: off
        keep: 3
        compress: none
      - type: stdout
      - {type: syslog, address: "tcp:[::1]:514", facility: local3}
    details: {directory: /d, max_age: 2d, max_size: 1GiB}
    symbolication: {enabled: no, cache: 2MiB, debug_directories: [/a, /b], time_limit: 1500ms}
    metrics: {listen: "unix:/run/m.sock", textfile: /t/stalld.prom, textfile_interval: 1h}
    services:
      - {match: "web*", enabled: no, captures: blocked-only, threshold: 100ms, repeat_window: 0s, maximum_reports_per_minute: 0, other_threads: all, symbolication: host}
      - match: db
    """

  @Test("a user's daily quota leaves space for others, also in small files")
  func quotaFollowsTheFiles() throws {
    func quota(_ file: String) throws -> Int? { try load(file).policy.userBytesPerDay }
    #expect(try quota("") == 240 << 20)
    #expect(try quota("outputs: [{type: file, max_size: 8MiB, keep: 3}]") == 8 << 20)
    #expect(try quota("outputs: [{type: file, max_size: off}]") == 240 << 20)
    #expect(try quota("limits: {user_bytes_per_day: off}\noutputs: [{type: file, max_size: 8MiB, keep: 3}]") == nil)
  }

  @Test func earlierNamesOfKeysAreRead() throws {
    let earlier = try load("services: [{match: web, budget: 7, sampling: 20ms, threads: all}]")
    let now = "{match: web, maximum_reports_per_minute: 7, resample_interval: 20ms, other_threads: all}"
    #expect(try earlier.services == load("services: [\(now)]").services)
    #expect(earlier.services[0].budget == 7)
    let said = try mistakes("services:\n  - match: web\n    budget: 7\n    maximum_reports_per_minute: 8\n")
    #expect(said == ["F:4: services[0].maximum_reports_per_minute: line 3 has the same key"])
  }

  /// By two spellings, one file would be two outputs.
  @Test(arguments: ["/x//o", "/x/./o", "/x/../x/o", "//x/o", "/x/o/.", "/.."]) func pathsHaveOneSpelling(path: String)
    throws
  {
    let said = try mistakes("outputs:\n  - {type: file, path: /x/o}\n  - {type: file, path: \(path)}\n")
    #expect(said == ["F:3: outputs[1].path = \(path): allowed: an absolute path without //, . and .. parts"])
    #expect(try mistakes("control: {path: \(path)}").count == 1)
    #expect(try mistakes("details: {directory: \(path)}").count == 1)
    #expect(try mistakes("metrics: {listen: \"unix:\(path)\"}").count == 1)
    #expect(try mistakes("", flags: .init(outputs: ["file:\(path)"])).count == 1)
    #expect(try mistakes("outputs: [{type: file, path: /x/.o..}]").isEmpty)
  }

  @Test func everyKeyOfTheFileArrives() throws {
    let settings = try load(Self.everything)
    var expected = AgentSettings()
    let root = AgentSettings.Account(name: "root", id: 0)
    expected.socket = .init(
      path: "/run/a.sock", mode: 0o660, group: root,
      allow: .init(
        users: [root, .init(name: "65534", id: 65534)], groups: [.init(name: "0", id: 0)]))
    expected.control.path = "/run/b.sock"
    expected.limits = .init(
      linesPerSecond: 1000, userLinesPerSecond: 3000, userBytesPerDay: 1 << 30, lineBytes: 64 << 10, connections: 10,
      connectionsPerUser: 5, memory: 3 << 19,
      incompleteLineTimeout: .seconds(60))
    expected.outputs = [
      .file(
        .init(path: "/var/log/x.jsonl", mode: 0o600, maxSize: 1_000_000_000, maxAge: nil, keep: 3, compress: .none)),
      .standardOutput, .syslog(.init(address: .tcp(host: "::1", port: 514), facility: .local3)),
    ]
    expected.details = .init(directory: "/d", maxAge: .seconds(2 * 86400), maxSize: 1 << 30)
    expected.symbolication = .init(
      enabled: false, cache: 2 << 20, debugDirectories: ["/a", "/b"], timeLimit: .milliseconds(1500))
    expected.metrics = .init(
      listen: .path("/run/m.sock"), textfile: "/t/stalld.prom", textfileInterval: .seconds(3600))
    expected.services = [
      .init(
        match: "web*", isEnabled: false, captures: .blockedOnly, threshold: .milliseconds(100), repeatWindow: .zero,
        budget: 0, threads: .all,
        symbolication: .host),
      .init(match: "db"),
    ]
    #expect(settings == expected)
    // What `check --print` says is a file that says the same.
    #expect(try load(settings.yaml) == settings)
    for key in AgentSettings.keys {
      #expect(key.values(settings) != key.values(AgentSettings()), "\(key.name) is not in this test's file")
    }
  }

  @Test(arguments: ["", "\n# nothing\n", "---\n", "socket:\nlimits:\noutputs:\nservices:\n", "{}"])
  func missingSettingsHaveTheirDefaults(_ text: String) throws {
    #expect(try load(text) == AgentSettings())
  }

  @Test func theDefaultsSurviveBeingPrinted() throws {
    #expect(try load(AgentSettings().yaml) == AgentSettings())
  }

  @Test func theShippedFileSaysTheDefaults() throws {
    let shipped = try String(
      contentsOf: Repository.file("Config/stalld.yaml"), encoding: .utf8)
    #expect(
      shipped == SettingsReference.file,
      "Config/stalld.yaml is made by: stalld settings-reference yaml > Config/stalld.yaml")
    #expect(try load(shipped) == AgentSettings())
    var said = 0
    let uncommented = shipped.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      // Text is behind "# ", a setting behind "#".
      guard let mark = line.firstMatch(of: /^( *)#(?! \S|$)/) else { return String(line) }
      said += 1
      return String(mark.1 + line[mark.range.upperBound...])
    }.joined(separator: "\n")
    #expect(try load(uncommented) == AgentSettings())
    #expect(said == AgentSettings.keys.count + AgentSettings.Output.File.keys.count + 1)
  }

  /// A property without a row could not be set by anybody.
  @Test func eachSettingHasARow() throws {
    let settings = AgentSettings()
    func count(_ group: Any) -> Int { Mirror(reflecting: group).children.count }
    func rows(_ prefix: String) -> Int { AgentSettings.keys.count { $0.name.hasPrefix(prefix) } }
    #expect(rows("socket.") == count(settings.socket) - 1 + count(settings.socket.allow))
    #expect(rows("control.") == count(settings.control))
    #expect(rows("limits.") == count(settings.limits))
    #expect(rows("details.") == count(settings.details))
    #expect(rows("symbolication.") == count(settings.symbolication))
    #expect(rows("metrics.") == count(settings.metrics))
    for kind in AgentSettings.Output.Kind.allCases {
      let output = try output(kind)
      let properties = Mirror(reflecting: output).children.first.map { count($0.value) } ?? 0
      #expect(keys(of: output).count == properties, "\(kind)")
    }
    #expect(AgentSettings.ServiceOverride.keys.count == count(AgentSettings.ServiceOverride()))
    // Each row sets a property of its own.
    #expect(Set(AgentSettings.keys.map(\.name)).count == AgentSettings.keys.count)
    let groups = AgentSettings.keys.map { String($0.name.prefix { $0 != "." }) } + ["outputs", "services"]
    #expect(Set(groups) == Set(AgentSettings.groups.map(\.name)))
  }

  /// An output with the defaults of its type.
  private func output(_ kind: AgentSettings.Output.Kind) throws -> AgentSettings.Output {
    try #require(load("outputs: [{type: \(kind.rawValue)}]").outputs.first)
  }

  /// The keys beside `type` that the settings write of an output.
  private func keys(of output: AgentSettings.Output) -> [String] {
    var settings = AgentSettings()
    settings.outputs = [output]
    var writer = YAMLWriter()
    settings.write(outputsTo: &writer)
    return writer.text.matches(of: #/^    (\w+): /#.anchorsMatchLineEndings()).map { String($0.1) }
  }

  @Test("each type of output is read, written and explained, and a reload keeps it open")
  func typesOfOutputs() throws {
    for kind in AgentSettings.Output.Kind.allCases {
      let output = try output(kind)
      #expect(output.kind == kind)
      #expect(output.isSamePlace(as: output), "\(kind)")
      #expect(AgentSettings.Output(output.destination) == output)
      #expect(AgentSettings.Output.forms.contains(kind.rawValue))
      #expect(SettingsReference.file.contains("  # type: \(kind.rawValue)"))
      let parts = SettingsManual().text.components(separatedBy: ".It Cm type\\&: ")
      let manual = try #require(parts.first { $0.hasPrefix("\(kind.rawValue)\n") })
      for key in keys(of: output) { #expect(manual.contains(".It Cm \(key)\n"), "\(kind).\(key)") }
      #expect(manual.contains("No further keys") == keys(of: output).isEmpty)
    }
  }

  @Test("the fuzzer begins with a file that has every setting")
  func seedOfTheFuzzer() throws {
    var (settings, reader) = (AgentSettings(), SettingsReader(file: "all"))
    let seed = try Data(contentsOf: Repository.file("Tests/Fuzz/seeds/settings/all"))
    reader.read(YAMLDocument(Array(seed)), into: &settings)
    #expect(reader.problems == [])
    let kinds = AgentSettings.Output.Kind.allCases
    #expect(settings.outputs.map(\.kind) == kinds)
    let ofOutputs = try kinds.enumerated().flatMap { index, kind in
      try keys(of: output(kind)).map { "outputs[\(index)].\($0)" }
    }
    let ofServices = AgentSettings.ServiceOverride.keys.map { "services[0].\($0.name)" }
    let names = AgentSettings.keys.map(\.name) + ofOutputs + ofServices
    #expect(Set(names).subtracting(reader.lines.keys) == [])
  }

  // MARK: Mistakes

  @Test func allErrorsAreReportedAtOnce() throws {
    let text = """
      socket:
        mode: "0999"
        pth: /run/x
        group: no-such-group-here
        allow: {users: [root, no-such-user-here]}
      limits:
        memory: 64XB
        connections: 0
        connections: 5
      outputs:
        - type: file
          path: relative.jsonl
          max_sise: 1MiB
        - type: fille
        - path: /x
        - type: stdout
          path: /y
      metrics:
        listen: "0.0.0.0:9464"
        textfile: /t/stalld.txt
      listen: x
      services:
        - threshold: 250
        - match: "web*"
          budget: many
          threads: [all]
      control: /run/x.sock
      """
    let said = try mistakes(
      text, environment: ["STALLD_LIMITS_MEMROY": "1", "STALLD_SOCKET_MODE": "x", "HOME": "/"],
      flags: .init(
        values: [.init(flag: "--socket", key: "socket.path", text: "here")], outputs: ["file:x"]))
    let expected = [
      #"F:2: socket.mode = 0999: allowed: a 0 and three octal digits, such as "0640""#,
      "F:3: socket.pth: no such key; did you mean path?",
      "F:4: socket.group = no-such-group-here: allowed: the name or number of a group of this machine; or off",
      "F:5: socket.allow.users[1] = no-such-user-here: allowed: the name or number of a user of this machine",
      "F:7: limits.memory = 64XB: allowed: a size from 1MiB to 64GiB, with its unit (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB)",
      "F:8: limits.connections = 0: allowed: a whole number from 1 to 1000000",
      "F:9: limits.connections: line 8 has the same key",
      "F:12: outputs[0].path = relative.jsonl: allowed: an absolute path without //, . and .. parts",
      "F:13: outputs[0].max_sise: no such key; did you mean max_size?",
      "F:14: outputs[1].type = fille: allowed: file, stdout, syslog",
      "F:15: outputs[2].type: this key is missing; allowed: file, stdout, syslog",
      "F:17: outputs[3].path: no such key; known here: type",
      "F:19: metrics.listen = 0.0.0.0:9464: allowed: unix:/PATH (without //, . and .. parts), or a loopback address with its port, such as 127.0.0.1:9464 or [::1]:9464; or off",
      "F:20: metrics.textfile = /t/stalld.txt: allowed: an absolute path that ends in .prom, without //, . and .. parts; or off",
      "F:21: listen: no such key here; did you mean metrics.listen?",
      "F:23: services[0].threshold = 250: allowed: a time from 1ms to 1h, with its unit (us, ms, s, min, h, d)",
      "F:23: services[0].match: this key is missing; allowed: a glob of at most 255 bytes with *, ? and [a-z], such as web*",
      "F:25: services[1].budget = many: allowed: a whole number from 0 to 10000",
      "F:26: services[1].threads: this is a list of 1; allowed: none, lock-holder, running, all",
      "F:27: control = /run/x.sock: allowed: a mapping of keys to values; did you mean path: /run/x.sock below it?",
      "STALLD_LIMITS_MEMROY=1: no such variable; did you mean STALLD_LIMITS_MEMORY?",
      #"STALLD_SOCKET_MODE=x: allowed: a 0 and three octal digits, such as "0640""#,
      "--socket here: allowed: an absolute path of at most 107 bytes, without //, . and .. parts",
      "--output file:x: allowed: file:PATH, stdout or syslog:ADDRESS, as in stalld.yaml(5); the path is absolute, without //, . and .. parts",
    ]
    for (line, other) in zip(said, expected) { #expect(line == other) }
    #expect(said.count == expected.count)
  }

  @Test(
    arguments: [
      (
        "a: [1, 2",
        "F:1: not YAML: did not find expected ',' or ']' while parsing a flow sequence that begins in line 1"
      ),
      ("socket:\n\tpath: /x\n", "F:2: a tab; indent YAML with spaces"),
      ("socket: {}\n---\nlimits: {}\n", "F:2: a second document; only one is allowed"),
      ("limits: &x {memory: 2MiB}\n", "F:1: anchors and aliases (&name, *name) are not supported; repeat the value"),
      ("limits: {memory: *m}\n", "F:1: anchors and aliases (&name, *name) are not supported; repeat the value"),
      ("limits: {memory: !!str 2MiB}\n", "F:1: tags (!name) are not supported; write the value alone"),
      ("limits: {memory: }\n", "F:1: limits.memory = : a value is missing; allowed: "),
      ("limits: {memory: {a: b}}\n", "F:1: limits.memory: this is a mapping; allowed: "),
      ("limits.memory: 2MiB\n", "F:1: limits.memory: no such key"),
      ("[a]: b\n", "F:1: a key must be a word"),
      ("outputs: []\n", "F:1: outputs: this is an empty list; allowed: a list of 1 to 16 outputs"),
      ("- a\n", "F:1: this is a list of 1; allowed: a mapping of keys to values"),
      ("nonsense\n", "F:1: this is text; allowed: a mapping of keys to values"),
      ("outputs:\n  - file: /x.jsonl", "F:2: outputs[0].type: this key is missing; allowed: file, stdout, syslog"),
      ("outputs:\n  - file: /x.jsonl", "F:2: outputs[0].file: no such key; did you mean type: file, path: /x.jsonl?"),
      ("outputs:\n  - stdout:", "F:2: outputs[0].stdout: no such key; did you mean type: stdout?"),
      (
        "outputs:\n  - syslog: /dev/log",
        "F:2: outputs[0].syslog: no such key; did you mean type: syslog, address: /dev"
      ),
      ("outputs:\n  - type: fil\n    max_sise: 1MiB", "F:3: outputs[0].max_sise: no such key; did you mean max_size?"),
      (
        "socket: /run/x.sock",
        "F:1: socket = /run/x.sock: allowed: a mapping of keys to values; did you mean path: /run"
      ),
      ("limits: 5", "F:1: limits = 5: allowed: a mapping of keys to values"),
      ("control: {path: \"/a\\nb\\e[31m\"}\n", #"F:1: control.path = /a\u{a}b\u{1b}[31m: allowed: an absolute path"#),
    ])
  func errorsAreReportedWithTheirLine(_ text: String, _ start: String) throws {
    let said = try mistakes(text)
    #expect(said.first?.hasPrefix(start) == true || said.contains { $0.hasPrefix(start) }, "\(said)")
  }

  @Test(
    arguments: [
      ("limits: {memory: 2MiB, line_bytes: 1MiB}", "F:1: limits.line_bytes = 1MiB: allowed: at most a quarter"),
      ("control: {path: /run/stalld/stalld.sock}", "F:1: control.path = /run/stalld/stalld.sock: socket.path has"),
      (
        "outputs:\n  - type: stdout\n  - type: stdout",
        "F:3: outputs[1] = stdout: an earlier output, outputs[0], writes to the same place"
      ),
    ])
  func conflictingSettingsAreReported(_ text: String, _ start: String) throws {
    let said = try mistakes(text)
    #expect(said.count == 1 && said.first?.hasPrefix(start) == true, "\(said)")
  }

  /// Two settings must not lead to one file, whatever links there are on the way.
  @Test func settingsThatLeadToOneFileAreReportedWithBothKeys() throws {
    let place = scratch.url.path
    try #require(mkdir("\(place)/log", 0o755) == 0 && symlink("log", "\(place)/linked") == 0)
    try Data().write(to: URL(filePath: "\(place)/log/a.prom"))
    try #require(link("\(place)/log/a.prom", "\(place)/hard.prom") == 0)
    try #require(symlink("log/a.prom", "\(place)/soft.prom") == 0)
    // Through ., .. and a second link, to a file that does not exist yet.
    try #require(symlink("linked/../log/./later", "\(place)/dangling.prom") == 0)
    func outputs(_ paths: String...) -> String {
      "outputs: [\(paths.map { "{type: file, path: \(place)/\($0)}" }.joined(separator: ", "))]\n"
    }
    func setting(_ key: String, _ path: String) -> String {
      let parts = key.split(separator: ".")
      return "\(parts[0]): {\(parts[1]): \"\(path.replacing("PLACE", with: place))\"}\n"
    }
    let cases: [(text: String, said: String)] = [
      (
        outputs("log/a.prom") + setting("metrics.textfile", "PLACE/log/a.prom"),
        "metrics.textfile = PLACE/log/a.prom: outputs[0].path has the same path"
      ),
      (
        outputs("log/a.prom") + setting("metrics.textfile", "PLACE/hard.prom"),
        "metrics.textfile = PLACE/hard.prom: outputs[0].path = PLACE/log/a.prom leads to the same file, PLACE/log/a.prom"
      ),
      (
        outputs("log/a.prom") + setting("metrics.textfile", "PLACE/soft.prom"),
        "metrics.textfile = PLACE/soft.prom: outputs[0].path = PLACE/log/a.prom leads to the same file, PLACE/log/a.prom"
      ),
      (
        outputs("log/later") + setting("metrics.textfile", "PLACE/dangling.prom"),
        "metrics.textfile = PLACE/dangling.prom: outputs[0].path = PLACE/log/later leads to the same file, PLACE/log/later"
      ),
      // It is written under this name first.
      (
        outputs("x.prom.new") + setting("metrics.textfile", "PLACE/x.prom"),
        "metrics.textfile = PLACE/x.prom: outputs[0].path = PLACE/x.prom.new leads to the same file, PLACE/x.prom.new"
      ),
      // The agent removes a socket's lock when it ends.
      (
        outputs("m.sock.lock") + setting("metrics.listen", "unix:PLACE/m.sock"),
        "metrics.listen = unix:PLACE/m.sock: outputs[0].path = PLACE/m.sock.lock leads to the same file, PLACE/m.sock.lock"
      ),
      (
        outputs("s.sock.lock") + setting("socket.path", "PLACE/s.sock"),
        "socket.path = PLACE/s.sock: outputs[0].path = PLACE/s.sock.lock leads to the same file, PLACE/s.sock.lock"
      ),
      (
        outputs("log/later", "linked/later"),
        "outputs[1].path = PLACE/linked/later: an earlier output, outputs[0].path, writes to the same place"
      ),
      (
        outputs("log/a", "linked/a.2026-11-21T10-39-12.123456Z"),
        "outputs[1].path = PLACE/linked/a.2026-11-21T10-39-12.123456Z: PLACE/linked/a.2026-11-21T10-39-12.123456Z of outputs[1].path is a name of a rotated file of outputs[0].path"
      ),
      (
        outputs("linked/s") + setting("socket.path", "PLACE/log/s"),
        "socket.path = PLACE/log/s: outputs[0].path = PLACE/linked/s leads to the same file, PLACE/linked/s"
      ),
      (
        setting("socket.path", "PLACE/log/s") + setting("control.path", "PLACE/linked/s"),
        "control.path = PLACE/linked/s: socket.path = PLACE/log/s leads to the same file, PLACE/log/s"
      ),
      (
        setting("control.path", "PLACE/s") + setting("metrics.listen", "unix:PLACE/s"),
        "metrics.listen = unix:PLACE/s: control.path has the same path"
      ),
      (
        "outputs: [{type: syslog, address: \(place)/s}]\n" + setting("socket.path", "PLACE/s"),
        "socket.path = PLACE/s: outputs[0].address has the same path"
      ),
      (outputs("stalld.yaml"), "outputs[0].path = F: the settings file has the same path"),
      (
        outputs("log/usage") + setting("details.directory", "PLACE/linked"),
        "details.directory = PLACE/linked: outputs[0].path = PLACE/log/usage leads to the same file, PLACE/log/usage"
      ),
      // `stalld report log/*.jsonl*`, or a shipper, would read them as reports.
      (
        outputs("log/stalls.jsonl") + setting("details.directory", "PLACE/linked/stalls.jsonl.d"),
        "details.directory = PLACE/linked/stalls.jsonl.d: REAL/log/*.jsonl*, which matches the files of outputs[0].path, matches PLACE/linked/stalls.jsonl.d of details.directory, too"
      ),
      (
        outputs("log/stalls.json") + setting("details.directory", "PLACE/log"),
        "details.directory = PLACE/log: REAL/log/*.json*, which matches the files of outputs[0].path, matches PLACE/log/0.json.part of details.directory, too"
      ),
    ]
    let real = FilePlace.resolved(place)
    for (text, expected) in cases {
      let said = try mistakes(text).map { $0.drop { $0 != " " }.dropFirst() }
      #expect(said == [expected.replacing("PLACE", with: place).replacing("REAL", with: real)[...]], "\(text)")
    }
    // Neighbours, also in one directory with the details.
    let fine =
      outputs("log/stalls", "log/stalls.jsonl", "log/stalls.jsonl.copy") + setting("details.directory", "PLACE/log")
      + setting("socket.path", "PLACE/log/stalls.sock") + setting("control.path", "PLACE/log/stalls.control.sock")
      + setting("metrics.textfile", "PLACE/log/stalls.prom")
    #expect(try mistakes(fine) == [])
    // Where a flag gives a path, both keys are named, too.
    let flags = AgentSettings.Flags(
      values: [.init(flag: "--textfile", key: "metrics.textfile", text: "\(place)/soft.prom")],
      outputs: ["file:\(place)/hard.prom"])
    #expect(
      try mistakes("", flags: flags) == [
        "--textfile \(place)/soft.prom: metrics.textfile: outputs[0].path = \(place)/hard.prom leads to the same file, \(place)/hard.prom"
      ])
    // Standard output of the agent that runs.
    let output = open("\(place)/log/a.prom", O_WRONLY)
    defer { close(output) }
    try Data(("outputs: [{type: stdout}, {type: file, path: \(place)/hard.prom}]").utf8).write(
      to: URL(filePath: file.path))
    _ = try AgentSettings.load(file: file, environment: [:])
    let error = #expect(throws: SettingsErrors.self) {
      try AgentSettings.load(file: file, environment: [:], standardOutput: output)
    }
    #expect(error?.description.contains("an earlier output, outputs[0], writes to the same place") == true)
  }

  @Test func aConflictIsReportedWhereItComesFrom() throws {
    let said = try mistakes("", environment: ["STALLD_LIMITS_LINE_BYTES": "16MiB", "STALLD_LIMITS_MEMORY": "17MiB"])
    #expect(said == ["STALLD_LIMITS_LINE_BYTES=16MiB: allowed: at most a quarter of limits.memory (17MiB)"])
  }

  // MARK: Layers

  @Test func flagsWinOverVariablesAndThoseOverTheFile() throws {
    let text = "limits: {memory: 8MiB, connections: 7}\ncontrol: {path: /f}\nsocket: {path: /f/s}\n"
    let settings = try load(
      text,
      environment: [
        "STALLD_LIMITS_MEMORY": "16MiB", "STALLD_CONTROL_PATH": "/v", "STALLD_METRICS_LISTEN": "127.0.0.1:9464",
        "STALLD_SOCKET_PATH": "",
      ],
      flags: .init(
        values: [.init(flag: "--control", key: "control.path", text: "/c")],
        outputs: ["stdout", "file:/x/y", "syslog:/dev/log"]))
    #expect(settings.limits.connections == 7)
    #expect(settings.limits.memory == 16 << 20)
    #expect(settings.control.path == "/c")
    #expect(settings.socket.path == "/f/s", "an empty variable is an unset one")
    #expect(settings.metrics.listen == MetricsAddress("127.0.0.1:9464"))
    #expect(settings.outputs == [.standardOutput, .file(.init(path: "/x/y")), .syslog(.init())])
  }

  @Test func onlyTheUsualFileMayBeMissing() throws {
    let missing = AgentSettings.File(path: "/no/such/file.yaml", isRequired: false)
    #expect(try AgentSettings.load(file: missing, environment: [:]) == AgentSettings())
    #expect(
      try mistakesOfFile("/no/such/file.yaml")
        == "/no/such/file.yaml: cannot be opened: No such file or directory; stalld settings-reference yaml prints one to begin with"
    )
    #expect(try mistakesOfFile("/etc") == "/etc: is a directory; give the settings file in it")
    let pipe = scratch.url.appending(path: "pipe").path
    #expect(mkfifo(pipe, 0o600) == 0)
    #expect(try mistakesOfFile(pipe) == "\(pipe): not a regular file")
  }

  private func mistakesOfFile(_ path: String) throws -> String {
    do {
      _ = try AgentSettings.load(file: .init(path: path, isRequired: true), environment: [:])
      return ""
    } catch {
      return error.description
    }
  }

  @Test func onlySettingsThatAReloadCannotApplyNeedARestart() throws {
    let old = try load("")
    #expect(try load("limits: {memory: 8MiB}\nservices: [{match: x}]").changesThatNeedRestart(from: old) == [])
    let other = try load("socket: {path: /other, group: root}\ncontrol: {path: /c}")
    #expect(other.changesThatNeedRestart(from: old) == ["socket.path", "socket.group", "control.path"])
  }

  @Test("a reload applies each setting, or lists it as one that needs a restart")
  func eachSettingIsAppliedOrNeedsARestart() {
    // What `Agent.apply` passes on, beside the lists of outputs and services.
    let applied = ["socket.allow.", "limits.", "details."]
    for key in AgentSettings.keys {
      #expect(key.needsRestart != applied.contains { key.name.hasPrefix($0) }, "\(key.name)")
    }
  }

  // MARK: Services

  @Test func theFirstMatchingServiceCounts() throws {
    let settings = try load(
      """
      services:
        - {match: "web-admin", budget: 1}
        - {match: "web*", budget: 2}
        - {match: "db@[ab].service", budget: 3}
        - {match: "*", budget: 4}
      """)
    func budget(_ unit: String?, _ service: String?) -> Int? {
      settings.overrides(unit: unit, service: service)?.budget
    }
    #expect(budget("web-admin.service", nil) == 1)
    #expect(budget("web1.service", "something") == 2)
    #expect(budget("x.service", "web-admin") == 1)
    #expect(budget("db@a.service", nil) == 3)
    #expect(budget("db@c.service", nil) == 4)
    #expect(budget(nil, nil) == nil)
    #expect(try load("services: [{match: \"web?\"}]").overrides(unit: "web.service", service: "db") == nil)
  }

  // MARK: Hostile files

  @Test(
    arguments: [
      String(repeating: "[", count: 1 << 20), String(repeating: "{a: ", count: 1 << 18),
      String(repeating: "- ", count: 1 << 19), String(repeating: "a", count: 1 << 20),
      String(repeating: "a: b\n", count: 200_000), String(repeating: "&a ", count: 1000), "\"\\xff\\uD800\"",
      "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n", "%YAML 9.9\n---\na",
      String(repeating: "x", count: 1 << 21), "outputs: [" + String(repeating: "{type: stdout},", count: 50000) + "]",
    ])
  func hostileFilesAreRefusedWithReasons(_ text: String) throws {
    let said = try mistakes(text)
    #expect((1...101).contains(said.count))
    #expect(said.allSatisfy { $0.utf8.count < 1000 })
  }

  /// Mistakes there may be, but no crash and no endless loop.
  @Test func corruptFilesAreHarmless() throws {
    var random = SystemRandomNumberGenerator()
    let whole = Array(Self.everything.utf8)
    for length in stride(from: 0, to: whole.count, by: 7) {
      _ = try? AgentSettings.parsed(Array(whole[..<length]))
    }
    for _ in 0..<1500 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...8, using: &random) {
        let place = Int.random(in: bytes.indices, using: &random)
        switch Int.random(in: 0...3, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes[place] = Array("[]{}:-&*!|>'\"%@`#,?\n\t ".utf8).randomElement(using: &random) ?? 0
        case 2: bytes.remove(at: place)
        default: bytes.insert(contentsOf: bytes[place...].prefix(20), at: place)
        }
      }
      _ = try? AgentSettings.parsed(bytes)
    }
    for _ in 0..<500 {
      let bytes = (0..<Int.random(in: 0...300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      _ = try? AgentSettings.parsed(bytes)
    }
  }
}

extension AgentSettings {
  /// What a file of these bytes says.
  fileprivate static func parsed(_ bytes: [UInt8]) throws -> AgentSettings {
    var settings = AgentSettings()
    var reader = SettingsReader(file: "F")
    reader.read(YAMLDocument(bytes), into: &settings)
    if !reader.problems.isEmpty { throw SettingsErrors(problems: reader.problems) }
    return settings
  }
}
