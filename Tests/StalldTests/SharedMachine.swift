import Foundation
import TestSupport
import Testing

@testable import stalld

/// A booted systemd with the shipped units, two users who do not trust each other, and clients of theirs in units of their own.
///
/// What tests learn of the agent is what anybody sees: its files, its answers, `/healthz`, the control socket and the journal.
final class SharedMachine: @unchecked Sendable {
  // @unchecked: tests of a serialized suite use it one after the other.

  /// The machine of the suite that runs.
  @TaskLocal static var current: SharedMachine!

  /// alice is honest, mallory is not.
  enum User: String { case alice, mallory, root }

  static let log = "/var/log/stalld"
  static let configuration = "metrics: {listen: \"unix:/run/stalld/metrics.sock\"}\n"
  private static let client = "/usr/bin/python3 \(Installation.programs)/shared-agent-client.py"
  private static let modules = "/usr/bin/python3 \(Installation.programs)/forged-modules.py"

  let machine: Machine
  private let files: ScratchDirectory
  private var clients = 0
  private var reports = 0

  init() throws {
    let support = Repository.file("Tests/Support")
    var more: [String: String] = [:]
    for name in ["shared-agent-client.py", "shared_agent_view.py", "forged-modules.py"] {
      more[String("\(Installation.programs)/\(name)".dropFirst())] = try String(
        contentsOf: support.appending(path: name), encoding: .utf8)
    }
    (machine, files) = try SystemdTests.AgentUnit.boot(more)
    try shell(
      """
      useradd --system alice && useradd --system mallory && mkdir -p /opt/app /srv/alice /srv/mallory /run/clients
      chown alice /srv/alice && chown mallory /srv/mallory && chmod 755 /srv/alice /srv/mallory
      """)
  }

  /// Runs a shell's script as root, which must succeed.
  @discardableResult
  func shell(_ script: String) throws -> String {
    let result = try machine.shell(script)
    try #require(result.status == 0, "\(script): \(result.output) \(result.errors)")
    return result.output
  }

  /// Makes modules as a user: the arguments of `forged-modules.py`.
  @discardableResult
  func make(_ arguments: String, as user: User = .root) throws -> String {
    try shell("runuser -u \(user.rawValue) -- \(Self.modules) \(arguments)").trimmingCharacters(
      in: .whitespacesAndNewlines)
  }

  /// Starts the agent with nothing of earlier tests in its directories.
  ///
  /// `prepare` is a script that runs as root while the agent is stopped.
  func startAgent(_ yaml: String = "", prepare: String = "true") throws {
    try (Self.configuration + yaml).write(
      toFile: machine.outside("/etc/stalld/stalld.yaml"), atomically: true, encoding: .utf8)
    try shell(
      """
      systemctl kill --signal KILL 'alice-*' 'mallory-*' 'root-*' 2>/dev/null
      systemctl stop stalld.service stalld.socket
      rm -rf /var/log/stalld/* /var/lib/stalld/* 2>/dev/null
      mkdir -p \(Self.log) && chown stalld:stalld \(Self.log) && chmod 750 \(Self.log)
      \(prepare)
      systemctl start stalld.socket stalld.service
      """)
    // It answers: its loop runs.
    try waitUntil { try machine.run("/usr/bin/stalld", "status").status != 1 }
  }

  /// Whether `stalld status` says that all is well, of the agent and of each output.
  ///
  /// It fails after two seconds, which a busy machine may take: then it is asked again.
  func isHealthy() throws -> Bool {
    var answer = ""
    try waitUntil {
      let asked = try machine.run("/usr/bin/stalld", "status", "--json")
      answer = asked.output
      return asked.status == 0
    }
    let status = try JSONDecoder().decode(AgentStatus.self, from: Data(answer.utf8))
    return status.problems.isEmpty && status.outputs.allSatisfy { $0.state == "ok" }
  }

  /// The unit's processes have stayed below its limit of memory, which the control groups of this machine may not enforce.
  func expectMemoryLimit(_ seen: Observation) throws {
    guard let limit = Int(try machine.property("MemoryMax", of: "stalld")) else { return }
    #expect(seen.memory <= limit, "\(seen.memory) bytes of \(limit)")
  }

  /// What the agent and systemd have said since a time, at least as urgent as a warning.
  func warnings(since time: Double) throws -> String {
    try machine.syncJournal()
    // The journal knows the time of day.
    let past = Self.now - time
    let start = Date.now.timeIntervalSince1970 - past
    return try shell(
      "journalctl --quiet --no-pager --output cat --unit stalld --priority warning --since @\(String(format: "%.6f", start))"
    )
  }

  /// A number that no other client's reports have.
  func nextFirst() -> Int {
    reports += 1
    return 0x5a000000 + reports
  }

  /// Starts a client in a unit of its own: a mode of `shared-agent-client.py`, and its arguments.
  func start(_ user: User, _ mode: String, _ arguments: String = "") throws -> Client {
    clients += 1
    let client = Client(name: "\(user.rawValue)-\(clients)", shared: self)
    let observer = mode == "observe" ? "Nice=-5" : "Nice=0"
    try shell(
      """
      systemd-run --quiet --collect --uid=\(user.rawValue) --unit=\(client.name) -p LimitNOFILE=20000 -p TimeoutStopSec=60 -p \(observer) \
        -p StandardOutput=file:\(client.output) \(Self.client) \(mode) \(arguments)
      """)
    return client
  }

  /// Starts a host that hands in reports of its own first number.
  func startHost(_ user: User = .alice, every milliseconds: Int = 10, _ more: String = "") throws -> (
    client: Client, first: Int
  ) {
    let first = nextFirst()
    return (try start(user, "report", "\(first) --every \(milliseconds) --service \(user.rawValue)-web \(more)"), first)
  }

  /// Says a text to the agent as a user, and returns what it answered.
  func say(_ text: String, as user: User) throws -> [String: Any] {
    let file = "/run/clients/say-\(UUID().uuidString)"
    try text.write(toFile: machine.outside(file), atomically: true, encoding: .utf8)
    return try Self.object(shell("runuser -u \(user.rawValue) -- \(Self.client) say --limit 30 <\(file); rm \(file)"))
  }

  /// What of the reports that a client saw acknowledged is in a directory's files.
  func compare(_ client: Client, since time: Double = 0, in directory: String = log) throws -> Comparison {
    let text = try shell("\(Self.client) compare \(client.output) \(directory) --since \(time)")
    return try JSONDecoder().decode(Comparison.self, from: Data(text.utf8))
  }

  struct Comparison: Decodable {
    var acknowledged: Int
    var missing: Int
    var doubled: Int
    /// Reports of the client that are in the files, acknowledged or not.
    var found: Int
  }

  /// How often a function is the first frame of a client's reports; the empty name is for frames without one.
  func names(of first: Int) throws -> [String: Int] {
    try Self.object(shell("\(Self.client) names \(first) \(Self.log)")).compactMapValues { $0 as? Int }
  }

  /// The agent's metrics: each sample's name with its labels, and its value.
  func metrics() throws -> [String: Double] {
    let get = "GET /metrics HTTP/1.0\\r\\n\\r\\n"
    let page = try shell(
      """
      /usr/bin/python3 -c 'import socket
      s = socket.socket(socket.AF_UNIX); s.connect("/run/stalld/metrics.sock"); s.sendall(b"\(get)")
      while d := s.recv(65536): print(d.decode(), end="")'
      """)
    var result: [String: Double] = [:]
    for line in page.split(separator: "\n") where line.hasPrefix("stalld_") {
      guard let space = line.lastIndex(of: " ") else { continue }
      result[String(line[..<space])] = Double(line[line.index(after: space)...])
    }
    return result
  }

  /// CLOCK_MONOTONIC in seconds, which the machine shares.
  static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  static func object(_ text: String) throws -> [String: Any] {
    let last = try #require(text.split(separator: "\n").last)
    return try #require(try JSONSerialization.jsonObject(with: Data(last.utf8)) as? [String: Any])
  }
}

extension SharedMachine {
  /// A client that runs until it is stopped.
  struct Client {
    let name: String
    let shared: SharedMachine
    var output: String { "/run/clients/\(name).json" }

    private var text: String {
      (try? String(contentsOfFile: shared.machine.outside(output), encoding: .utf8)) ?? ""
    }

    /// How many reports, connections or answers it has counted until now.
    var count: Int {
      let latest = text.split(separator: "\n").last { $0.hasPrefix("acknowledged ") }
      return latest.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
    }

    /// Waits until it has counted so many more.
    func advance(by more: Int) throws {
      let before = count
      try waitUntil { count >= before + more }
    }

    /// Ends it, and returns its last words.
    @discardableResult
    func stop() throws -> [String: Any] {
      try shared.shell("systemctl stop \(name) 2>/dev/null || true")
      let words = try SharedMachine.object(text)
      var shown = words
      for key in ["reports", "seen", "first"] { shown[key] = nil }
      print("\(name):", shown.map { "\($0) \($1)" }.sorted().joined(separator: ", "))
      return words
    }
  }

  /// What an observer has seen of the agent's health.
  struct Observation {
    /// When it asked, what /healthz said (0 if nobody answered), and what the control socket said is wrong (nil if nobody answered).
    var seen: [(time: Double, code: Int, problems: [String]?)] = []
    /// The most that the processes of its unit had resident together, in bytes.
    var memory = 0

    init(_ words: [String: Any]) throws {
      memory = words["memory"] as? Int ?? 0
      for entry in try #require(words["seen"] as? [[Any]]) {
        seen.append((entry[0] as? Double ?? 0, entry[1] as? Int ?? 0, entry[2] as? [String]))
      }
    }

    /// How often /healthz and the control socket said between two times that all was well.
    func timesOK(from: Double, to: Double) -> (health: Int, status: Int, of: Int) {
      let part = seen.filter { $0.time >= from && $0.time <= to }
      return (part.count { $0.code == 200 }, part.count { $0.problems?.isEmpty == true }, part.count)
    }

    /// When both first said that something is wrong, after a time; nil if they did not.
    func firstAlarm(after time: Double) -> Double? {
      seen.first { $0.time >= time && $0.code == 503 && $0.problems?.isEmpty == false }?.time
    }
  }
}

/// Boots the machine of a suite, and halts it when the suite has ended.
struct OnSharedMachine: SuiteTrait, TestScoping {
  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let shared = try SharedMachine()
    defer { #expect(shared.machine.halt() == 0, "nothing is left behind") }
    try await SharedMachine.$current.withValue(shared) { try await function() }
  }
}

extension Trait where Self == OnSharedMachine {
  /// All tests of the suite run on one machine.
  static var onSharedMachine: Self { Self() }
}
