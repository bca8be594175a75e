/// The answer to `stalld status`: the state of a running agent as one JSON object.
///
/// Keys are only added. Foundation encodes and decodes it (``JSONScanner`` says why).
struct AgentStatus: Codable, Sendable, Equatable {
  struct Configuration: Codable, Sendable, Equatable {
    var file: String?
    /// Whether the file was there when the settings were read; nil if the agent does not say.
    var exists: Bool?
    /// RFC 3339.
    var loaded: String?
    /// Why the last reload was refused; nil if it was not.
    var error: String?
  }

  struct Output: Codable, Sendable, Equatable {
    /// One of ``AgentSettings/Output/Kind``.
    var type: String
    /// The path or address.
    var target: String?
    /// `ok`, or what is wrong.
    var state = "ok"
    var lines: UInt64 = 0
    var bytes: UInt64 = 0
    var errors: UInt64 = 0
    var dropped: UInt64 = 0
    var queued = 0
  }

  struct Client: Codable, Sendable, Equatable {
    var service: String
    var unit: String?
    var pid: Int32
    var uid: UInt32
    /// RFC 3339.
    var connected: String
    var lines: UInt64 = 0
    /// Over the last minute.
    var linesPerSecond = 0.0
    var openStalls = 0

    enum CodingKeys: String, CodingKey {
      case service, unit, pid, uid, connected, lines
      case linesPerSecond = "lines_per_second"
      case openStalls = "open_stalls"
    }
  }

  struct Stall: Codable, Sendable, Equatable {
    /// RFC 3339.
    var time: String
    var id: String
    var service: String
    /// `stall.ended` and so on.
    var event: String
    var durationMilliseconds: Double
    var cause: String
    var culprit: String?
    var message: String

    enum CodingKeys: String, CodingKey {
      case time, id, service, event, cause, culprit, message
      case durationMilliseconds = "duration_ms"
    }
  }

  struct Queue: Codable, Sendable, Equatable {
    var lines = 0
    var bytes = 0
    var bytesLimit = 0

    enum CodingKeys: String, CodingKey {
      case lines, bytes
      case bytesLimit = "bytes_limit"
    }
  }

  struct Symbols: Codable, Sendable, Equatable {
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    var bytes = 0
    var bytesLimit = 0

    enum CodingKeys: String, CodingKey {
      case hits, misses, bytes
      case bytesLimit = "bytes_limit"
    }
  }

  var version: String
  var pid: Int32
  var uptimeSeconds: Double
  /// Why the agent is not healthy; empty if it is.
  var problems: [String] = []
  var configuration = Configuration()
  var outputs: [Output] = []
  /// Open connections; ``clients`` has at most 200 of them.
  var connections = 0
  var clients: [Client] = []
  var linesIngested: UInt64 = 0
  /// Over the last minute.
  var linesPerSecond = 0.0
  var linesRefused: UInt64 = 0
  var linesDuplicate: UInt64 = 0
  /// Newest last.
  var stalls: [Stall] = []
  var queue = Queue()
  var symbols: Symbols?
  var residentBytes = 0

  enum CodingKeys: String, CodingKey {
    case version, pid, problems, configuration, outputs, connections, clients, stalls, queue, symbols
    case uptimeSeconds = "uptime_s"
    case linesIngested = "lines_ingested"
    case linesPerSecond = "lines_per_second"
    case linesRefused = "lines_refused"
    case linesDuplicate = "lines_duplicate"
    case residentBytes = "resident_bytes"
  }
}
