import Glibc

extension AgentSettings {
  /// A place where lines go.
  enum Output: Sendable, Equatable {
    case file(File)
    case standardOutput
    case syslog(Syslog)
  }

  /// Where the detail files of stalls are kept, and for how long.
  struct Details: Sendable, Equatable {
    /// An absolute path; made if only its last part is missing.
    var directory = "/var/lib/stalld/stalls"
    /// Nil: of any age.
    var maxAge: Duration? = .seconds(14 * 86_400)
    /// Bytes of all files together.
    var maxSize = 256 << 20
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
  }
}
