import FoundationEssentials
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// The agent's socket for `stalld status`, `stalld tail` and `stalld reload`.
///
/// A request is one JSON object on one line: `{"status":{}}` is answered by one line and the end;
/// so is `{"reload":{}}`, once the reload has ended, of root and of the agent's own user; after
/// `{"tail":{"lines":N}}` come the last N lines that the agent keeps, and from then on each line as
/// it is written. A reader that is too slow loses lines, and is informed how many: `{"dropped":N}`.
/// The loop never waits for a client.
///
/// It has many dependencies because it serves three requests over one list of connections: the
/// parts that answer, the lines that are kept for readers, and what ends clients that do not read.
final class ControlServer: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  static let connectionLimit = 32
  /// Lines that are kept for readers to come.
  static let keptLines = 50
  private static let keptBytes = 512 << 10
  /// How long a client may take to ask, and to take the answer.
  static let requestTime = Duration.seconds(5)

  private let loop: Loop
  private let listener: StreamListener
  private let status: () -> AgentStatus
  private let reload: (@escaping (ReloadOutcome) -> Void) -> Void
  private var acceptSource: Loop.DescriptorSource?
  private var connections: [Int32: ControlConnection] = [:]
  private var kept: [[UInt8]] = []
  private var bytesKept = 0
  private var timer: Loop.Timer?
  private var isStopped = false

  /// Serves from now on.
  ///
  /// - Parameters:
  ///   - path: The socket's, which gets the mode 0660.
  ///   - loop: The calling thread's.
  ///   - reload: Reloads the settings, and says how that ended, on the loop's thread.
  ///   - status: Asked for on the loop's thread.
  /// - Throws: ``StreamListener/Failure`` if nobody can listen there.
  init(
    path: String, loop: Loop,
    reload: @escaping (@escaping (ReloadOutcome) -> Void) -> Void = { $0(.refused("this agent cannot reload")) },
    status: @escaping () -> AgentStatus
  ) throws {
    self.reload = reload
    self.loop = loop
    self.status = status
    listener = try StreamListener(path: path, mode: 0o660)
    do {
      acceptSource = try loop.watch(listener.descriptor, name: "control listener") { [weak self] _, _ in
        self?.accept()
      }
    } catch {
      listener.end()
      throw error
    }
  }

  /// How many readers follow.
  var readers: Int { connections.values.count { $0.isReader } }

  /// Hands lines that have been written on to the readers.
  func publish(_ lines: [ReportLine]) {
    for line in lines.suffix(Self.keptLines) { keep(line.bytes) }
    for connection in Array(connections.values) where connection.isReader {
      for line in lines { connection.send(line.bytes) }
      connection.flush()
    }
  }

  private func keep(_ line: [UInt8]) {
    kept.append(line)
    bytesKept += line.count
    while kept.count > Self.keptLines || bytesKept > Self.keptBytes { bytesKept -= kept.removeFirst().count }
  }

  /// Ends all connections and takes the socket's file away.
  func stop() {
    guard !isStopped else { return }
    isStopped = true
    acceptSource?.invalidate()
    timer?.invalidate()
    for connection in Array(connections.values) { connection.end() }
    listener.end()
  }

  private func accept() {
    for _ in 0..<16 {
      var isExhausted = false
      guard let descriptor = listener.accept(isExhausted: &isExhausted) else {
        // No descriptor is left: the listener stays readable, and polling it repeatedly would waste CPU time.
        if isExhausted {
          acceptSource?.interest = []
          loop.perform(after: .seconds(1), name: "control listener") { [weak self] _ in
            self?.acceptSource?.interest = .readable
          }
        }
        return
      }
      let connection = ControlConnection(
        descriptor, didAsk: { [weak self] in self?.answer($0, $1) },
        didEnd: { [weak self] in self?.connections[$0] = nil })
      guard connections.count < Self.connectionLimit else {
        connection.send(Self.error("too many connections; the limit is \(Self.connectionLimit)"))
        connection.end()
        continue
      }
      connections[descriptor] = connection
      connection.start(on: loop)
      planTimeOut()
    }
  }

  private func answer(_ connection: ControlConnection, _ request: [UInt8]) {
    guard let text = try? JSONText(request) else {
      connection.finish(Self.error("the request is not JSON"))
      return
    }
    if text.root["status"] != nil {
      // Only the command of the same build reads it, with JSONDecoder: each number of the status is then named once.
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
      let line = (try? encoder.encode(status())).map { Array($0) + [0x0a] }
      connection.finish(line ?? Self.error("the status is not available"))
    } else if text.root["reload"] != nil {
      guard connection.isOperators else {
        return connection.finish(Self.error("only root and the agent's own user may reload"))
      }
      connection.isWaiting = true
      reload { [weak connection] in connection?.finish(Array(($0.json + "\n").utf8)) }
    } else if let tail = text.root["tail"] {
      let count = max(0, min(text.integer(tail["lines"]) ?? 0, Self.keptLines))
      connection.isReader = true
      for line in kept.suffix(count) { connection.send(line) }
      connection.flush()
    } else {
      let isService = Self.linesOfServices.contains { text.root[$0] != nil }
      connection.finish(Self.error(Self.unknownRequest + (isService ? Self.otherSocket : "")))
    }
  }

  /// The first member of each request.
  static let requests = ["status", "tail", "reload"]
  /// What the lines of services have (`Documentation/AgentProtocol.md`).
  private static let linesOfServices = ["hello", "event", "detail", "goodbye"]
  private static let unknownRequest = "unknown request; allowed: status, tail and reload"
  private static let otherSocket =
    ". This is the control socket; services connect to the agent's other socket (setting socket.path, or --socket of stalld run)"

  /// Ends clients that do not ask, or do not take the answer.
  private func planTimeOut() {
    guard timer == nil else { return }
    let waiting = connections.values.filter { !$0.isReader && !$0.isWaiting }
    guard let earliest = waiting.map(\.began).min() else { return }
    let timer = Loop.Timer(at: earliest.advanced(by: Self.requestTime), name: "control requests") { [weak self] _ in
      guard let self else { return }
      self.timer = nil
      let limit = Loop.Instant.now.advanced(by: .zero - Self.requestTime)
      for connection in Array(connections.values)
      where !connection.isReader && !connection.isWaiting && connection.began <= limit {
        connection.end()
      }
      planTimeOut()
    }
    self.timer = timer
    loop.add(timer)
  }

  private static func error(_ text: String) -> [UInt8] { Array("{\"error\":\"\(text)\"}\n".utf8) }
}
