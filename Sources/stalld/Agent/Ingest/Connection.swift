import CLinux
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// The connection of one process: its unread input, and the messages sent to it.
///
/// Belongs to the agent's loop. It has many properties because each part of ``Ingest`` keeps its
/// state of one connection here: received bytes, accounted bytes, lines without an acknowledgement,
/// and the answers.
final class Connection {
  let number: UInt64
  let descriptor: Int32
  let process: PeerProcess
  let stamp: Stamp
  let since = Timestamp.now()
  private var source: Loop.DescriptorSource?
  private var onReadable: ((Connection) -> Void)?
  /// Nothing is read from it for now: what it sends stays with it.
  private(set) var isPaused = false
  /// What has been read and not been taken: lines that wait for tokens, then the beginning of one whose newline has not come yet.
  var rest: [UInt8] = []
  /// Whether there is a whole line in it.
  var holdsLines = false
  /// Whether it waits for tokens.
  var isHeld = false
  /// How many bytes have come of a line that is too long, while it is discarded; nil outside of one.
  var discardedBytes: Int?
  var incompleteTimer: Loop.Timer?
  private(set) var isOpen = true

  /// What it said of itself in `hello`.
  var service: String?
  var hasSaidHello = false
  /// The pid by which it knows itself, which is another one in another PID namespace.
  var ownProcessID: Int?

  /// Lines that came, of any kind.
  var received: UInt64 = 0
  /// Lines on their way to the outputs.
  var outstanding = 0
  var outstandingBytes = 0
  private var lastDone: UInt64 = 0
  private var acknowledged: UInt64 = 0
  var faults = 0
  /// Whether its lines are to be acknowledged before the loop waits.
  var isMarked = false

  var lineRate = LineRate()
  let share: UnitShare
  /// Bytes of its unfinished line that its user's share accounts for.
  var unfinishedBytes = 0
  /// Whether it was informed that its user has used up the quota of the day.
  var hasHeardOfQuota = false
  /// Where the process notes that its stalls are over.
  var recovery: RecoveryMemory?
  private var outbox: [UInt8] = []

  /// A client that reads nothing costs no more than this; newer acknowledgements replace older ones.
  private static let outboxLimit = 64 << 10

  init(number: UInt64, descriptor: Int32, process: PeerProcess, share: UnitShare) {
    self.number = number
    self.descriptor = descriptor
    self.process = process
    stamp = Stamp(process.peer)
    self.share = share
  }

  /// Reads nothing any more, and closes.
  func close() {
    guard isOpen else { return }
    isOpen = false
    source?.invalidate()
    source = nil
    onReadable = nil
    incompleteTimer?.invalidate()
    Glibc.close(descriptor)
  }

  // MARK: Reading

  /// Its line is complete, or discarded; the next one has its own time limit.
  func stopTimingLine() {
    incompleteTimer?.invalidate()
    incompleteTimer = nil
  }

  /// Watches the socket; `body` is called on the loop whenever there is something to read.
  func watch(on loop: Loop, _ body: @escaping (Connection) -> Void) throws {
    onReadable = body
    try addSource(to: loop)
  }

  private func addSource(to loop: Loop) throws {
    let connection = UncheckedReference(self)
    let source = Loop.DescriptorSource(descriptor, for: interest, name: "service") { _, readiness in
      connection.object?.respond(to: readiness, on: loop)
    }
    self.source = source
    try loop.add(source)
  }

  private var interest: Loop.DescriptorSource.Readiness {
    var interest: Loop.DescriptorSource.Readiness = []
    if !isPaused { interest.insert(.readable) }
    if !outbox.isEmpty { interest.insert(.writable) }
    return interest
  }

  private func respond(to readiness: Loop.DescriptorSource.Readiness, on loop: Loop) {
    if readiness.contains(.writable) {
      flush()
      acknowledge()
    }
    guard isOpen else { return }
    if !isPaused {
      onReadable?(self)
    } else if !readiness.isDisjoint(with: [.hangUp, .error]) {
      // It would be reported repeatedly; its data is read later.
      source?.invalidate()
      source = nil
    }
  }

  /// Whether there are bytes to read or lines to take; false at the end of the stream.
  var hasInput: Bool {
    var byte: UInt8 = 0
    return holdsLines || recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
  }

  /// Reads nothing until ``resume(on:)``.
  func pause() {
    guard isOpen, !isPaused else { return }
    isPaused = true
    source?.interest = interest
  }

  func resume(on loop: Loop) {
    guard isOpen, isPaused else { return }
    isPaused = false
    if let source { source.interest = interest } else { try? addSource(to: loop) }
  }

  // MARK: Acknowledgements

  /// A line of this connection that was on its way has arrived.
  func didFinish(line: UInt64, bytes: Int) {
    outstanding -= 1
    outstandingBytes -= bytes
    lastDone = line
  }

  /// Acknowledges the process's lines, if more have arrived.
  func acknowledge() {
    let done = outstanding == 0 ? received : lastDone
    // What it does not read now is sent with the next line.
    guard isOpen, done > acknowledged, outbox.count < Self.outboxLimit / 2 else { return }
    acknowledged = done
    withUnsafeTemporaryAllocation(byteCount: 48, alignment: 1) { line in
      send(UnsafeRawBufferPointer(rebasing: line[..<Self.write(acknowledged: done, to: line)]))
    }
  }

  /// Writes the acknowledgement, with its newline; returns its length.
  private static func write(acknowledged number: UInt64, to line: UnsafeMutableRawBufferPointer) -> Int {
    let head: StaticString = "{\"acknowledged\":"
    line.copyMemory(from: UnsafeRawBufferPointer(start: head.utf8Start, count: head.utf8CodeUnitCount))
    var (digits, rest) = (1, number)
    while rest >= 10 { (digits, rest) = (digits + 1, rest / 10) }
    let end = head.utf8CodeUnitCount + digits
    rest = number
    for place in stride(from: end - 1, to: end - 1 - digits, by: -1) {
      line[place] = UInt8(ascii: "0") + UInt8(rest % 10)
      rest /= 10
    }
    (line[end], line[end + 1]) = (UInt8(ascii: "}"), UInt8(ascii: "\n"))
    return end + 2
  }

  /// Sends a line as far as the process takes it; the rest follows.
  func send(_ text: String, on loop: Loop) {
    guard isOpen, outbox.count < Self.outboxLimit else { return }
    (Array(text.utf8) + [UInt8(ascii: "\n")]).withUnsafeBytes { send($0) }
  }

  private func send(_ line: UnsafeRawBufferPointer) {
    guard outbox.isEmpty else {
      outbox += line
      return flush()
    }
    let count = sendNow(line)
    guard count < line.count else { return }
    outbox += line[count...]
    source?.interest = interest
  }

  /// How much of it the socket has accepted; all if the socket is closed: the next read reports the end.
  private func sendNow(_ bytes: UnsafeRawBufferPointer) -> Int {
    while true {
      let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      if count >= 0 { return count }
      if errno != EINTR { return errno == EAGAIN ? 0 : bytes.count }
    }
  }

  /// Sends a line with a descriptor, if it can be sent at once; false if not.
  func send(_ text: String, with given: Int32) -> Bool {
    guard isOpen, outbox.isEmpty else { return false }
    let bytes = Array(text.utf8) + [UInt8(ascii: "\n")]
    let count = clinux_send_with_descriptor(descriptor, bytes, bytes.count, given)
    guard count > 0 else { return false }
    outbox += bytes[count...]
    source?.interest = interest
    return true
  }

  private func flush() {
    let sent = outbox.withUnsafeBytes { sendNow($0) }
    outbox.removeFirst(sent)
    source?.interest = interest
  }
}

/// A reference that a closure of the agent's loop needs, which must be `Sendable`.
struct UncheckedReference<Object: AnyObject>: @unchecked Sendable {
  // @unchecked: made, and looked into, on the agent's loop alone.
  private(set) weak var object: Object?

  init(_ object: Object) { self.object = object }
}
