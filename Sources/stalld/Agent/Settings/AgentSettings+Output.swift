import Glibc

extension AgentSettings {
  /// A place where lines go.
  enum Output: Sendable, Equatable {
    case file(File)
    case standardOutput
    case syslog(Syslog)
  }
}

extension AgentSettings.Output {
  /// A file of JSON lines that the agent rotates.
  struct File: Sendable, Equatable {
    /// An absolute path.
    var path = "/var/log/stalld/stalls.jsonl"
    /// Of a file that is made.
    var mode: mode_t = 0o640
    /// Bytes beyond which no line is added; nil: no limit.
    var maxSize: Int? = 64 << 20
    /// From the file's birth; nil: no limit.
    var maxAge: Duration? = .seconds(86_400)
    /// How many rotated files are kept.
    var keep = 14
    var compress = Compression.gzip
    var fsync = Fsync.off

    static let keys: [SettingsKey<File>] = [
      .init("path", \.path, .path, "The file of JSON lines."),
      .init("mode", \.mode, .mode, "The permissions of the file."),
      .init(
        "max_size", orOff: \.maxSize, .size(64 << 10...1 << 40),
        "The agent rotates the file before it grows larger; off disables this."),
      .init(
        "max_age", orOff: \.maxAge, .time(.seconds(60) ... .seconds(366 * 86400)),
        "The agent rotates the file when its first line is older; off disables this."),
      .init("keep", \.keep, .count(1...10000), "The number of rotated files to keep."),
      .init("compress", \.compress, .choice, "The compression of rotated files."),
      .init(
        "fsync", \.fsync, .choice,
        "When reports are synchronised to the disk: off leaves this to the kernel (a power failure loses up to half a minute of reports), interval does it within a second, each before a report is acknowledged."
      ),
    ]
  }

  /// What becomes of rotated files.
  enum Compression: String, Sendable, Equatable, CaseIterable {
    case gzip, none
  }

  /// When what is written to a file is brought to the disk.
  enum Fsync: String, Sendable, Equatable, CaseIterable {
    /// When the kernel does it: a power cut takes the last half minute.
    case off
    /// A second after it was written.
    case interval
    /// Before it is acknowledged.
    case each
  }

  /// A syslog daemon: the format of syslog(3) on a Unix socket, RFC 5424 by TCP.
  struct Syslog: Sendable, Equatable {
    var address = SyslogAddress.local(path: "/dev/log")
    var facility = SyslogFacility.daemon

    static let keys: [SettingsKey<Syslog>] = [
      .init(
        "address", \.address, .syslogAddress,
        "The receiver of the messages: a socket gets the format of syslog(3), a TCP address that of RFC 5424."),
      .init("facility", \.facility, .choice, "The facility of each message."),
    ]
  }

  /// The types of outputs.
  ///
  /// The raw value is the word for `type`, and the first word of `--output`.
  enum Kind: String, Sendable, CaseIterable {
    case file
    case standardOutput = "stdout"
    case syslog

    /// The key whose value follows the word and a colon in `--output`; nil if nothing does.
    var operandKey: String? {
      switch self {
      case .file: "path"
      case .standardOutput: nil
      case .syslog: "address"
      }
    }

    /// What follows the word and a colon in `--output`, as help calls it; nil if nothing does.
    var operand: String? { operandKey?.uppercased() }

    /// The names of its keys, beside `type`.
    var keyNames: [String] {
      switch self {
      case .file: File.keys.map(\.name)
      case .standardOutput: standardOutputKeys.map(\.name)
      case .syslog: Syslog.keys.map(\.name)
      }
    }
  }

  var kind: Kind {
    switch self {
    case .file: .file
    case .standardOutput: .standardOutput
    case .syslog: .syslog
    }
  }

  /// The file that it writes; nil if it writes none.
  var path: String? {
    switch self {
    case .file(let file): file.path
    case .standardOutput, .syslog: nil
    }
  }

  /// The allowed values of `type`, as messages list them.
  static let types = Kind.allCases.map(\.rawValue).joined(separator: ", ")

  /// The allowed values of `--output`, as help and messages list them.
  static var forms: String {
    let forms = Kind.allCases.map { kind in kind.rawValue + (kind.operand.map { ":" + $0 } ?? "") }
    return forms.dropLast().joined(separator: ", ") + " or " + forms[forms.count - 1]
  }

  /// What stdout takes beside its type.
  static let standardOutputKeys: [SettingsKey<Void>] = []
}
