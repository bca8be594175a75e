import DescriptorIO
import FoundationEssentials
import StallReport

/// What settings need of the units beyond what these have as they are shipped (`systemd/`).
struct UnitNeeds: Equatable {
  /// The units, each with the section that its drop-in has.
  enum Unit: String, CaseIterable {
    case service = "stalld.service"
    case socket = "stalld.socket"

    var section: String { self == .service ? "[Service]" : "[Socket]" }
  }

  /// What one setting needs of a unit.
  struct Need: Equatable {
    var setting: String
    var reason: String
    var unit: Unit
    /// Lines of a drop-in.
    var lines: [String]
  }

  private(set) var needs: [Need] = []

  /// What the shipped unit lets the agent write to.
  static let writableDirectories = ["/run/stalld", "/var/lib/stalld", "/var/log/stalld"]
  /// What the shipped unit hides, and by which of its settings.
  private static let hidden = [
    ("/home", "ProtectHome=no"), ("/root", "ProtectHome=no"), ("/run/user", "ProtectHome=no"),
    ("/tmp", "PrivateTmp=no"), ("/var/tmp", "PrivateTmp=no"),
  ]
  /// As the shipped unit has them.
  static let descriptorLimit = 16_384
  static let memoryLimit = 2 << 30
  /// What the agent needs beside waiting lines, the cache of symbols and the two processes that read debug files: itself and recovery pages.
  static let otherMemory = 128 << 20
  private static let otherDescriptors = 1024

  init(_ settings: AgentSettings) {
    let usual = AgentSettings()
    for (index, output) in settings.outputs.enumerated() {
      switch output {
      case .file(let file): write(to: PathParts(file.path).directory, for: "outputs[\(index)].path = \(file.path)")
      case .standardOutput: break
      case .syslog(let syslog):
        if case .tcp(let host, _) = syslog.address {
          connect(to: host, for: "outputs[\(index)].address = \(syslog.address)")
        }
      }
    }
    write(to: settings.details.directory, for: "details.directory = \(settings.details.directory)")
    switch settings.metrics.listen {
    case .loopback(let address)?: connect(to: address.host, for: "metrics.listen = \(address)")
    case .path(let path)?: write(to: PathParts(path).directory, for: "metrics.listen = unix:\(path)")
    case nil: break
    }
    if let path = settings.metrics.textfile {
      write(to: PathParts(path).directory, for: "metrics.textfile = \(path)")
    }
    write(to: PathParts(settings.control.path).directory, for: "control.path = \(settings.control.path)")
    readSocket(settings.socket, usual.socket)
    readLimits(settings, usual)
  }

  private mutating func readSocket(_ socket: AgentSettings.Socket, _ usual: AgentSettings.Socket) {
    func text(_ mode: UInt32) -> String { "0" + String(mode, radix: 8) }
    if socket.path != usual.path {
      need(
        ["ListenStream=", "ListenStream=\(socket.path)"], of: .socket, for: "socket.path = \(socket.path)",
        "stalld.socket creates the socket")
    }
    if socket.mode != usual.mode {
      need(
        ["SocketMode=\(text(socket.mode))"], of: .socket, for: "socket.mode = \(text(socket.mode))",
        "stalld.socket creates the socket")
    }
    if let group = socket.group {
      need(
        ["SocketGroup=\(group.name)"], of: .socket, for: "socket.group = \(group.name)",
        "stalld.socket creates the socket")
    }
  }

  private mutating func readLimits(_ settings: AgentSettings, _ usual: AgentSettings) {
    let (limits, cache) = (settings.limits, settings.symbolication.cache)
    // Beside waiting lines, which are copied on their way: a quarter for open stalls, and a half for lines without their end.
    let memory =
      limits.memory + limits.memory / 4 * 3 + cache + 2 * settings.symbolication.workerMemory + Self.otherMemory
    if memory > Self.memoryLimit {
      need(
        ["MemoryMax=\(memory >> 20)M"],
        for: "limits.memory = \(ByteSize.text(limits.memory)), symbolication.cache = \(ByteSize.text(cache))",
        "the unit has MemoryMax=\(Self.memoryLimit >> 30)G")
    }
    let descriptors = limits.connections * DescriptorLimit.ofConnection + Self.otherDescriptors
    if descriptors > Self.descriptorLimit {
      need(
        ["LimitNOFILE=\(descriptors)"], for: "limits.connections = \(limits.connections)",
        "the unit has LimitNOFILE=\(Self.descriptorLimit)")
    }
  }

  // MARK: Kinds of needs

  private mutating func connect(to host: String, for setting: String) {
    let isLocal = LoopbackAddress.digits(of: host) != nil
    need(
      [
        "PrivateNetwork=no", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        "IPAddressAllow=\(isLocal ? "localhost" : host)",
      ], for: setting, "the unit has no network")
  }

  private mutating func write(to directory: String, for setting: String) {
    func isIn(_ parent: String) -> Bool { directory == parent || directory.hasPrefix(parent + "/") }
    guard !Self.writableDirectories.contains(where: isIn) else { return }
    let hidden = Self.hidden.first { isIn($0.0) }
    let quoted = directory.contains(" ") ? "\"\(directory)\"" : directory
    need(
      (hidden.map { [$0.1] } ?? []) + ["ReadWritePaths=\(quoted.replacing("%", with: "%%"))"], for: setting,
      "the unit does not allow writes there\(hidden.map { ", and \($0.0) hides the directory" } ?? ""); user stalld needs write permission"
    )
  }

  private mutating func need(
    _ lines: [String], of unit: Unit = .service, for setting: String, _ reason: String
  ) {
    needs.append(Need(setting: setting, reason: reason, unit: unit, lines: lines))
  }
}

extension UnitNeeds {
  /// Leaves out what the operator's drop-ins have already.
  ///
  /// - Parameter root: The directory under which `etc/systemd/system` lies.
  mutating func removeWhatIsThere(under root: String = "/") {
    for unit in Unit.allCases {
      let words = Self.words(of: unit, under: root)
      needs.removeAll { need in
        need.unit == unit
          && need.lines.allSatisfy { line in
            let (key, value) = Self.parts(line)
            return value.split(separator: " ").allSatisfy { Self.grants(words[key] ?? [], String($0), of: key) }
          }
      }
    }
  }

  /// The message: each setting with its reason, and the drop-ins; empty if nothing is needed.
  var text: String {
    var text = ""
    for unit in Unit.allCases {
      let own = needs.filter { $0.unit == unit }
      guard !own.isEmpty else { continue }
      var lines: [String] = []
      for line in own.flatMap(\.lines) where !lines.contains(line) { lines.append(line) }
      text += "to run as a service with these settings, the agent needs a drop-in for \(unit.rawValue):\n"
      for need in own { text += "  \(need.setting.printable(limit: 4096)): \(need.reason)\n" }
      text +=
        "/etc/systemd/system/\(unit.rawValue).d/settings.conf, then run systemctl daemon-reload and restart the unit:\n"
      text += ([unit.section] + lines).map { "  \($0)\n" }.joined()
    }
    return text
  }

  /// Whether the words of a key are as much as `needed`, or more.
  private static func grants(_ words: [String], _ needed: String, of key: String) -> Bool {
    if words.contains(needed) { return true }
    switch key {
    case "LimitNOFILE", "MemoryMax":
      guard let least = amount(needed), let last = words.last else { return false }
      return last.hasSuffix("infinity") || amount(last).map { $0 >= least } == true
    case "ReadWritePaths":
      return words.contains { word in
        let path = word.drop { "-+".contains($0) }
        return path == needed || needed.hasPrefix(path.hasSuffix("/") ? path : path + "/")
      }
    default: return needed == "no" && words.last.map(["false", "off", "0"].contains) == true
    }
  }

  /// A number of systemd's, such as `65536`, `4G` or `1024:65536`, whose second part is the hard limit, to which the agent raises its own.
  private static func amount(_ text: String) -> Int? {
    let hard = text.split(separator: ":").last ?? ""
    return Int(hard) ?? ByteSize.parse(hard + "iB")
  }

  /// Keys of which the last assignment holds; other keys are lists, which an assignment extends, and one without a value empties.
  private static let singleKeys: Set = [
    "LimitNOFILE", "MemoryMax", "PrivateTmp", "ProtectHome", "PrivateNetwork", "SocketMode", "SocketGroup",
  ]

  /// The words that a unit of the operator's own, and then the drop-ins by name, give each key.
  private static func words(of unit: Unit, under root: String) -> [String: [String]] {
    let places = ["run", "etc"].map { "\(root)/\($0)/systemd/system/\(unit.rawValue)" }
    var dropIns: [String: String] = [:]
    // A drop-in in /etc replaces that of the same name in /run.
    for place in places {
      for path in FileTree(place + ".d") where path.hasSuffix(".conf") { dropIns[PathParts(path).name] = path }
    }
    var words: [String: [String]] = [:]
    for path in places + dropIns.sorted(by: { $0.key < $1.key }).map(\.value) {
      let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
      for line in text.split(separator: "\n") where !line.hasPrefix("#") && !line.hasPrefix(";") {
        let (key, value) = parts(String(line))
        if value.isEmpty || singleKeys.contains(key) { words[key] = [] }
        words[key, default: []] += value.split(separator: " ").map { String($0) }
      }
    }
    return words
  }

  private static func parts(_ line: String) -> (key: String, value: String) {
    let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      .map { $0.drop { $0.isWhitespace } }
      .map { String($0.reversed().drop { $0.isWhitespace }.reversed()) }
    return (parts[0], parts.count > 1 ? parts[1] : "")
  }
}
