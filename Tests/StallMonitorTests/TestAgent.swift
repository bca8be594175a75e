import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

/// An agent in the test process: a Unix socket that speaks the protocol, and remembers what it has
/// received.
final class TestAgent: Sendable {
  /// One connection, from its beginning to its end.
  struct Connection {
    var lines: [Data] = []
    var isOpen = true
  }

  private struct State {
    var connections: [Connection] = []
    var descriptors: [Int32] = []
    var isListening = false
  }

  /// What it does with what comes.
  struct Manners: Sendable {
    /// Whether lines are read at all.
    var reads = true
    /// Whether what was read is acknowledged.
    var acknowledges = true
    /// Whether it acknowledges as a later minor version may, with members that this one does not have.
    var isLater = false
    /// Sent after the first line.
    var greeting: [String] = []
    /// Sent at once, whatever it is.
    var garbage: [UInt8] = []
    /// Whether it hangs up after that.
    var hangsUp = false
  }

  let path: String
  private let manners: Mutex<Manners>
  private let state = Mutex(State())
  private let listener: Mutex<Int32>

  /// Listens at once.
  init(_ manners: Manners = Manners(), path: String = TestAgent.makePath()) throws {
    self.path = path
    self.manners = Mutex(manners)
    let descriptor = try Self.listen(at: path)
    listener = Mutex(descriptor)
    accept(on: descriptor)
  }

  deinit {
    close()
    unlink(path)
  }

  static func makePath() -> String { "/tmp/stalld-agent-\(UUID().uuidString.prefix(13)).sock" }

  func change(_ body: (inout Manners) -> Void) { manners.withLock { body(&$0) } }

  var connections: [Connection] { state.withLock { $0.connections } }

  /// The last line of the last connection, unless that is the greeting.
  var lastLine: Data? { state.withLock { $0.connections.last.flatMap { $0.lines.count > 1 ? $0.lines.last : nil } } }

  /// All lines but the greetings, of all connections.
  var lines: [Data] { connections.flatMap { $0.lines.dropFirst() } }

  /// The reports among them.
  func reports() throws -> [WrittenReport] {
    try lines.filter { $0.starts(with: Data("{\"@timestamp\"".utf8)) }.map(WrittenReport.init)
  }

  /// Sends a line to every host that is connected.
  func say(_ line: String) {
    for descriptor in state.withLock({ state in zip(state.descriptors, state.connections).filter { $1.isOpen }.map(\.0)
    }) {
      Self.send(Array((line + "\n").utf8), to: descriptor)
    }
  }

  /// Ends the connections, as an agent does that dies, and listens no more.
  func close() {
    listener.withLock {
      // Closed by who accepts from it: its number is not to be another's before.
      if $0 >= 0 { shutdown($0, Int32(SHUT_RDWR)) }
      $0 = -1
    }
    unlink(path)
    hangUp()
  }

  /// Ends the connections, and continues to listen.
  func hangUp() {
    state.withLock { for descriptor in $0.descriptors where descriptor >= 0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
  }

  /// Listens again, at the same place.
  func comeBack() throws {
    let descriptor = try Self.listen(at: path)
    listener.withLock { $0 = descriptor }
    accept(on: descriptor)
  }

  /// Waits until `condition` holds; generously.
  func wait(_ what: String, until condition: (TestAgent) throws -> Bool) throws {
    try waitUntil("still waiting: \(what); \(connections.map(\.lines.count)) lines") { try condition(self) }
  }

  // MARK: Sockets

  private static func listen(at path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    unlink(path)
    let code = withUnixAddress(path.utf8) { bind(descriptor, $0, $1) }
    try #require(code == 0 && Glibc.listen(descriptor, 64) == 0, "errno \(errno)")
    return descriptor
  }

  private func accept(on listener: Int32) {
    Thread.detachNewThread { [weak self] in
      while true {
        let descriptor = Glibc.accept(listener, nil, nil)
        guard descriptor >= 0, let self else {
          self?.listener.withLock { if $0 == listener { $0 = -1 } }
          Glibc.close(listener)
          if descriptor >= 0 { Glibc.close(descriptor) }
          return
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        let index = self.state.withLock { state in
          state.connections.append(Connection())
          state.descriptors.append(descriptor)
          return state.connections.count - 1
        }
        Thread.detachNewThread { [weak self] in
          Self.serve(descriptor, index) { self }
        }
      }
    }
  }

  private static func serve(_ descriptor: Int32, _ index: Int, _ agent: () -> TestAgent?) {
    guard let manners = agent()?.manners.withLock({ $0 }) else { return }
    if !manners.garbage.isEmpty { send(manners.garbage, to: descriptor) }
    if manners.hangsUp {
      agent()?.state.withLock {
        $0.connections[index].isOpen = false
        $0.descriptors[index] = -1
      }
      return _ = Glibc.close(descriptor)
    }
    while agent()?.manners.withLock({ $0.reads }) == false {
      usleep(10_000)
      // Until the host has gone.
      var entry = pollfd(fd: descriptor, events: 0, revents: 0)
      if poll(&entry, 1, 0) == 1 { return }
    }
    var input = Data()
    var buffer = [UInt8](repeating: 0, count: 65536)
    var count = 0
    while true {
      let length = read(descriptor, &buffer, buffer.count)
      guard length > 0 else { break }
      input.append(contentsOf: buffer[..<length])
      var start = input.startIndex
      while let end = input[start...].firstIndex(of: 10) {
        let line = Data(input[start..<end])
        start = end + 1
        count += 1
        guard let agent = agent() else { return }
        agent.state.withLock { $0.connections[index].lines.append(line) }
        if count == 1 { for line in manners.greeting { send(Array((line + "\n").utf8), to: descriptor) } }
      }
      input = Data(input[start...])
      if agent()?.manners.withLock({ $0.acknowledges }) == true {
        let more = manners.isLater ? #","durable":{"lines":[\#(count)]},"note":null"# : ""
        send(Array("{\"acknowledged\":\(count)\(more)}\n".utf8), to: descriptor)
      }
    }
    // Closed within the lock: nobody shuts another file down by this number.
    guard let agent = agent() else { return _ = Glibc.close(descriptor) }
    agent.state.withLock {
      $0.connections[index].isOpen = false
      $0.descriptors[index] = -1
      Glibc.close(descriptor)
    }
  }

  private static func send(_ bytes: [UInt8], to descriptor: Int32) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return }
      sent += count
    }
  }
}
