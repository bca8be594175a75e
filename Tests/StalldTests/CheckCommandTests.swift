import Foundation
import TestSupport
import Testing

@testable import stalld

/// `stalld check`, and `stalld run` with settings that cannot be used, as programs.
struct CheckCommandTests {
  private let stalld: String
  private let scratch: ScratchDirectory

  init() throws {
    stalld = try Program.built("stalld", "debug").path
    scratch = try ScratchDirectory()
  }

  private func file(_ text: String) throws -> String {
    let url = scratch.url.appending(path: "stalld.yaml")
    try text.write(to: url, atomically: true, encoding: .utf8)
    return url.path
  }

  @Test func goodSettingsPrintNothing() throws {
    let checked = try Program.run(stalld, ["check", "--config", file("limits: {memory: 8MiB}\n")])
    #expect(checked.status == 0)
    #expect(checked.output == "")
    #expect(checked.errors == "")
  }

  /// All of them at once, each with the flag that changes it.
  @Test func aRunListsAllPathsThatCannotBeUsed() throws {
    let place = scratch.url.path
    try Data().write(to: scratch.url.appending(path: "file"))
    let taken = try StreamListener(path: "\(place)/taken", mode: 0o600)
    defer { taken.end() }
    func run(_ socket: String, _ control: String, _ details: String) throws -> [Substring] {
      let run = try Program.run(
        stalld,
        [
          "run", "--socket", "\(place)/\(socket)", "--control", "\(place)/\(control)", "--details",
          "\(place)/\(details)", "--output", "file:\(place)/none/a.jsonl", "--output", "stdout",
        ], limit: 30)
      #expect(run.status == 1 && run.output == "")
      return run.errors.split(separator: "\n")
    }
    let missing = "No such file or directory; create the directory \(place)/none, or give another"
    let output = "stalld: file \(place)/none/a.jsonl: \(missing) file with --output file:PATH"
    #expect(
      try run("none/s", "none/c", "none/details") == [
        "stalld: details.directory \(place)/none/details: \(missing) directory with --details DIRECTORY", output[...],
        "stalld: cannot listen at \(place)/none/s: \(missing) path with --socket PATH",
        "stalld: cannot listen at \(place)/none/c: \(missing) path with --control PATH",
      ])
    #expect(
      try run("taken", "file", "file") == [
        "stalld: details.directory \(place)/file: \(place)/file is not a directory; give another directory with --details DIRECTORY",
        output[...],
        "stalld: cannot listen at \(place)/taken: \(StreamListener.name(of: getpid())) listens there; end it, or give another path with --socket PATH",
        "stalld: cannot listen at \(place)/file: the file is not a socket; remove it, or give another path with --control PATH",
      ])
    #expect(FileManager.default.fileExists(atPath: "\(place)/taken"))
  }

  @Test func settingsThatNeedADropInAreListedWithItsText() throws {
    let path = try file(
      """
      socket: {mode: "0660", group: root}
      limits: {memory: 2GiB, connections: 8000}
      outputs: [{type: file, path: /srv/stalls/a.jsonl}, {type: file, path: /home/a/b.jsonl}, {type: syslog, address: "tcp:10.0.0.7:514"}]
      details: {directory: "/srv/my stalls"}
      metrics: {listen: "127.0.0.1:9464", textfile: /var/lib/node_exporter/stalld.prom}

      """)
    let checked = try Program.run(stalld, ["check", "--config", path])
    #expect(checked.status == 0 && checked.output == "")
    let lines = checked.errors.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    for line in [
      "[Service]", "PrivateNetwork=no", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "IPAddressAllow=localhost",
      "IPAddressAllow=10.0.0.7", "ReadWritePaths=/srv/stalls", "ProtectHome=no", "ReadWritePaths=/home/a",
      "ReadWritePaths=\"/srv/my stalls\"", "ReadWritePaths=/var/lib/node_exporter", "MemoryMax=4800M",
      "LimitNOFILE=25024", "[Socket]", "SocketMode=0660", "SocketGroup=root",
    ] { #expect(lines.count { $0 == line } == 1, "\(line)") }
    #expect(checked.errors.contains("metrics.listen = 127.0.0.1:9464: the unit has no network"))
    #expect(
      checked.errors.contains(
        "outputs[1].path = /home/a/b.jsonl: the unit does not allow writes there, and /home hides the directory"))
    #expect(checked.errors.contains("/etc/systemd/system/stalld.service.d/settings.conf"))
    // What lies where the unit may write needs nothing.
    let usual = try file(
      """
      outputs: [{type: stdout}, {type: syslog}, {type: file, path: /var/log/stalld/more/x.jsonl}]
      details: {directory: /var/lib/stalld/elsewhere}
      metrics: {listen: "unix:/run/stalld/m.sock", textfile: /var/lib/stalld/stalld.prom}
      control: {path: /run/stalld/c.sock}
      limits: {memory: 128MiB}

      """)
    #expect(try Program.run(stalld, ["check", "--config", usual]).errors == "")
  }

  @Test func settingsThatADropInCoversAreNotListed() throws {
    var settings = AgentSettings()
    settings.metrics.listen = .loopback(try #require(LoopbackAddress("127.0.0.1:9464")))
    settings.metrics.textfile = "/srv/a/stalld.prom"
    let dropIns = scratch.url.appending(path: "etc/systemd/system/stalld.service.d")
    try FileManager.default.createDirectory(at: dropIns, withIntermediateDirectories: true)
    try FileManager.default.copyItem(
      at: Repository.file("systemd/examples/network.conf"), to: dropIns.appending(path: "network.conf"))
    var needs = UnitNeeds(settings)
    #expect(needs.needs.count == 2)
    needs.removeWhatIsThere(under: scratch.url.path)
    #expect(needs.needs.map(\.setting) == ["metrics.textfile = /srv/a/stalld.prom"])
    try "[Service]\nReadWritePaths=/srv/b /srv/a\n".write(
      to: dropIns.appending(path: "a.conf"), atomically: true, encoding: .utf8)
    needs.removeWhatIsThere(under: scratch.url.path)
    #expect(needs.needs.isEmpty && needs.text.isEmpty)
  }

  @Test(
    "a drop-in covers a setting if it grants more",
    arguments: [
      ("MemoryMax=8G", "LimitNOFILE=65536"), ("MemoryMax=infinity", "LimitNOFILE=infinity"),
      ("MemoryMax = 9000000K ", "LimitNOFILE=1024:524288"),
    ])
  func dropInThatGrantsMore(memory: String, descriptors: String) throws {
    var settings = AgentSettings()
    settings.limits.memory = 2 << 30
    settings.limits.connections = 8000
    settings.details.directory = "/srv/stalls/details"
    // Two name workers may have as much as the cache allows.
    settings.symbolication.cache = 256 << 20
    let dropIns = scratch.url.appending(path: "etc/systemd/system/stalld.service.d")
    try FileManager.default.createDirectory(at: dropIns, withIntermediateDirectories: true)
    let file = dropIns.appending(path: "a.conf")
    var needs = UnitNeeds(settings)
    #expect(
      needs.needs.flatMap(\.lines) == [
        "ReadWritePaths=/srv/stalls/details", "MemoryMax=6528M", "LimitNOFILE=25024",
      ])
    try "[Service]\nMemoryMax=1G\nLimitNOFILE=1024\nReadWritePaths=/srv/stall\n".write(
      to: file, atomically: true, encoding: .utf8)
    needs.removeWhatIsThere(under: scratch.url.path)
    #expect(needs.needs.count == 3)
    try "[Service]\n\(memory)\n\(descriptors)\nReadWritePaths=/srv/stalls\n".write(
      to: file, atomically: true, encoding: .utf8)
    needs.removeWhatIsThere(under: scratch.url.path)
    #expect(needs.needs.isEmpty, "\(needs.text)")
  }

  /// As systemd reads them: by name, /etc before /run, and the last assignment holds.
  @Test func lastDropInHolds() throws {
    var settings = AgentSettings()
    settings.limits.memory = 2 << 30
    settings.details.directory = "/home/stalls"
    func add(_ place: String, _ name: String, _ text: String) throws {
      let directory = scratch.url.appending(path: "\(place)/systemd/system/stalld.service.d")
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
      try "[Service]\n\(text)\n".write(to: directory.appending(path: name), atomically: true, encoding: .utf8)
    }
    func missing() -> [String] {
      var needs = UnitNeeds(settings)
      needs.removeWhatIsThere(under: scratch.url.path)
      return needs.needs.map(\.setting)
    }
    try add("run", "10.conf", "MemoryMax=8G\nProtectHome=false\nReadWritePaths=-/home")
    #expect(missing() == [])
    try add("etc", "20.conf", "MemoryMax=1G\nReadWritePaths=")
    #expect(missing().count == 2)
    try add("etc", "20.conf", "#")
    try add("etc", "10.conf", "MemoryMax=8G")
    #expect(missing() == ["details.directory = /home/stalls"])
  }

  /// What is assumed of the unit is what is shipped.
  @Test func shippedUnitHasTheExpectedLimits() throws {
    let unit = try String(contentsOf: UnitFileTests.unit, encoding: .utf8).split(separator: "\n")
    for line in [
      "MemoryMax=\(UnitNeeds.memoryLimit >> 30)G", "LimitNOFILE=\(UnitNeeds.descriptorLimit)", "PrivateNetwork=yes",
      "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "RuntimeDirectory=stalld", "StateDirectory=stalld",
      "LogsDirectory=stalld",
    ] { #expect(unit.contains { $0 == line }, "\(line)") }
    #expect(UnitNeeds(AgentSettings()).needs.isEmpty)
  }

  @Test func effectiveSettingsArePrintedAsYAML() throws {
    let path = try file("limits: {memory: 8MiB}\nservices: [{match: \"a b*\", budget: 3}]\n")
    let printed = try Program.run(
      stalld, ["check", "--print", "--config", path, "--output", "stdout"],
      environment: ["STALLD_LIMITS_CONNECTIONS": "9"])
    #expect(printed.status == 0)
    #expect(printed.output.contains("limits:\n  lines_per_second: 500\n"))
    #expect(printed.output.contains("  connections: 9\n"))
    #expect(printed.output.contains("  memory: 8MiB\n"))
    #expect(printed.output.contains("outputs:\n  - type: stdout\n"))
    #expect(printed.output.contains("services:\n  - match: \"a b*\"\n    maximum_reports_per_minute: 3\n"))
    // Printed once more from what was printed, it is the same.
    let again = try Program.run(stalld, ["check", "--print", "--config", file(printed.output)])
    #expect(again.output == printed.output)
  }

  @Test(arguments: ["check", "run"])
  func mistakesAreNamedAndEndIt(_ command: String) throws {
    let path = try file("limts: {}\nlimits: {memory: 1}\n")
    let refused = try Program.run(
      stalld, [command, "--config", path], environment: ["STALLD_NONSENSE": "1", "STALLMONITOR_ENABLED": "false"])
    #expect(refused.status == 1)
    #expect(refused.output == "")
    let lines = refused.errors.split(separator: "\n")
    #expect(lines.count == 3)
    #expect(lines.first == "\(path):1: limts: no such key; did you mean limits?")
    #expect(lines.dropFirst().first?.hasPrefix("\(path):2: limits.memory = 1: allowed: a size from ") == true)
    #expect(lines.last?.hasPrefix("STALLD_NONSENSE=1: no such variable; ") == true)
  }

  /// Reports would be replaced by metrics.
  @Test(arguments: ["check", "run"])
  func settingsThatLeadToOneFileAreRefused(_ command: String) throws {
    let place = scratch.url.path
    let path = try file(
      """
      outputs: [{type: file, path: \(place)/a.prom}]
      metrics: {textfile: \(place)/a.prom}

      """)
    let refused = try Program.run(stalld, [command, "--config", path], limit: 30)
    #expect(refused.status == 1 && refused.output == "")
    #expect(refused.errors == "\(path):2: metrics.textfile = \(place)/a.prom: outputs[0].path has the same path\n")
    #expect(!FileManager.default.fileExists(atPath: "\(place)/a.prom"))
  }

  @Test func aFlagThatIsNotKnownIsWrongUse() throws {
    #expect(try Program.run(stalld, ["check", "--nonsense"]).status == 64)
  }
}
