import DescriptorIO
import Glibc
import LoopEngine

/// One client of the control socket, and the lines that wait for it.
final class ControlConnection: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  /// Bytes that wait for a slow reader before lines are dropped.
  static let queueLimit = 1 << 20
  private static let longestRequest = 4096

  private(set) var began = Loop.Instant.now
  /// It gets each line as it is written.
  var isReader = false
  /// The agent has not finished what it asked for.
  var isWaiting = false
  private let descriptor: Int32
  /// Nil when it is over.
  private var output: LineDescriptor?
  private let didAsk: (ControlConnection, [UInt8]) -> Void
  private let didEnd: (Int32) -> Void
  private var source: Loop.DescriptorSource?
  private var request: [UInt8] = []
  private var hasAsked = false
  /// It is over when the queue is empty.
  private var isFinishing = false
  private var isOver = false
  private var queue: [[UInt8]] = []
  private var head = 0
  private var queuedBytes = 0
  private var dropped = 0

  init(
    _ descriptor: Int32, didAsk: @escaping (ControlConnection, [UInt8]) -> Void, didEnd: @escaping (Int32) -> Void
  ) {
    self.descriptor = descriptor
    output = LineDescriptor(owning: descriptor)
    self.didAsk = didAsk
    self.didEnd = didEnd
  }

  /// Whether root or the agent's own user has connected.
  var isOperators: Bool {
    guard let peer = PeerCredentials(socket: descriptor) else { return false }
    return peer.uid == 0 || peer.uid == geteuid()
  }

  func start(on loop: Loop) {
    do {
      source = try loop.watch(descriptor, name: "control client") { [weak self] _, readiness in
        guard let self else { return }
        if !readiness.isDisjoint(with: [.readable, .hangUp, .error]) { receive() }
        if readiness.contains(.writable), !isOver { flush() }
      }
    } catch {
      end()
    }
  }

  /// Queues a line; it is dropped and counted if too much waits already.
  func send(_ line: [UInt8]) {
    guard !isOver else { return }
    guard queuedBytes + line.count <= Self.queueLimit else {
      dropped += 1
      return
    }
    if dropped > 0 {
      append(Array("{\"dropped\":\(dropped)}\n".utf8))
      dropped = 0
    }
    append(line)
  }

  /// Sends a last line, and ends when it is out.
  func finish(_ line: [UInt8]) {
    guard !isOver else { return }
    // The time for taking the answer is its own.
    (isWaiting, began) = (false, .now)
    // There is one request, of any length.
    append(line)
    isFinishing = true
    flush()
  }

  /// Sends what the socket takes.
  func flush() {
    while let output, head < queue.count {
      let line = queue[head]
      let before = output.bytesWritten
      let outcome = output.write(line)
      queuedBytes -= output.bytesWritten - before
      switch outcome {
      case .written:
        queue[head] = []
        head += 1
      case .full:
        compact()
        source?.interest = [.readable, .writable]
        return
      case .failed:
        end()
        return
      }
    }
    guard !isOver else { return }
    queue = []
    head = 0
    source?.interest = .readable
    if dropped > 0 {
      append(Array("{\"dropped\":\(dropped)}\n".utf8))
      dropped = 0
      flush()
      return
    }
    if isFinishing { end() }
  }

  /// Closes it at once.
  func end() {
    guard !isOver else { return }
    isOver = true
    if source == nil, let line = queue.first { _ = output?.write(line) }
    source?.invalidate()
    source = nil
    queue = []
    output = nil
    didEnd(descriptor)
  }

  private func append(_ line: [UInt8]) {
    queue.append(line)
    queuedBytes += line.count
  }

  private func compact() {
    guard head > 256 else { return }
    queue.removeFirst(head)
    head = 0
  }

  private func receive() {
    var buffer = [UInt8](repeating: 0, count: Self.longestRequest)
    let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    guard count > 0 else {
      end()
      return
    }
    // After its request a client has nothing more to say.
    guard !hasAsked else { return }
    request += buffer[..<count]
    if let newline = request.firstIndex(of: 0x0a) {
      hasAsked = true
      didAsk(self, Array(request[..<newline]))
    } else if request.count >= Self.longestRequest {
      end()
    }
  }
}
