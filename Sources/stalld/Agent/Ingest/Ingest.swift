import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// Receives the reports of all services: admits connections, reads lines, and acknowledges them.
///
/// Belongs to the agent's loop. Lines are delivered in the order in which they arrive, and acknowledged on their connection when they are written.
/// It has many dependencies because each line passes all checks before it is delivered, in one place and in order: connections, shares,
/// duplicates and open stalls change together.
final class Ingest {
  /// Where what comes in goes.
  struct Destination {
    /// Lines, and places of lines, in order; ``Ingest/didFinish(_:)`` receives those that have arrived.
    var submit: ([PendingLine]) -> Void
    /// All samples of a stall: its id, whose it is, and the JSON object.
    var storeDetail: (String, Peer, [UInt8]) -> Void
    /// The settings that a process gets, as a JSON object; nil if it gets none.
    var settings: (_ unit: String?, _ service: String?) -> String?
    /// A process other than the agent has connected.
    var didConnect: () -> Void = {}
    /// A stall was reported, or a duplicate of its line was recognised.
    var didTake: (ReportLine) -> Void = { _ in }
    /// Saves how much each user and unit has written today, for the next start of the agent.
    var keepUsage: (String) -> Void = { _ in }
  }

  /// The longest report, which a log shipper's default must take.
  static let longestReport = Report.longestLine
  /// What the agent adds to a report: how a process ended, and what was left out.
  static let spare = 400
  // One more is `stall.fatal`'s.
  static let highestSequence = UInt64(1) << 62
  /// What is read of a connection before the others have their turn.
  static let readSize = 32 << 10
  /// Connections that are accepted, and that are refused, before services are read again: their lines wait for that long.
  static let acceptLimit = 4
  static let refusalLimit = 8
  /// How long lines wait for others at most, and how many do.
  static let batchInterval: Duration = .milliseconds(1)
  static let batchLines = 64
  static let faultLimit = 100
  static let inquiryLimit = 16
  static let drainLimit: Duration = .seconds(2)
  /// Two of the longest lines of a process.
  static let leastRoom = 128 << 10
  /// Processes that disconnected during a stall, of one user and of all: each costs a descriptor or two.
  static let absentLimitOfUser = 64
  static let absentLimit = 512
  /// Recovery pages of one process, and of all.
  static let recoveryLimitOfProcess = 2
  static let recoveryLimit = 4096
  /// How many bytes are written before the usage is saved again.
  static let usageStep = 4 << 20

  let loop: Loop
  let destination: Destination
  var policy: Policy
  let metrics: AgentMetrics
  var listener: Loop.DescriptorSource?
  var connections: [UInt64: Connection] = [:]
  /// Those that have ended, until their lines have arrived.
  var leaving: [UInt64: Connection] = [:]
  var shares = ClientShares()
  var connectionRate = ConnectionRate()
  var refusalPace = RefusalPace()
  var descriptors = DescriptorLimit.current
  /// Why the last connection that lacked a descriptor was refused, or waits; see ``currentShortage()``.
  var descriptorShortage: String?
  /// What has been written today.
  var usage = DailyUsage()
  /// By pid: more than one if a process has connected with several credentials, or if the end of a former one is not reported yet.
  var processes: [Int32: [PeerProcess]] = [:]
  /// Processes without a connection that have open stalls, in the order in which they disconnected.
  var absent: [PeerProcess] = []
  let recoveries = RecoveryMemory.Counts(limit: recoveryLimit)
  var nextNumber: UInt64 = 1
  var recent = RecentReports()
  var clientLog = ClientLog()
  var inquiries: [UInt64: ExitInquiry] = [:]
  var nextInquiry: UInt64 = 1
  /// Inquiries that may ask systemd, by ``Peer/owner``.
  var systemdInquiries = SharedAllowance<UInt32>()

  var batch: [PendingLine] = []
  /// Lines, and places of lines, that are on their way to the outputs.
  var underWay = 0
  /// Bytes of the lines of open stalls, by ``Peer/owner``.
  var openBytes = SharedAllowance<UInt32>()
  /// Bytes of lines that are on their way to the outputs.
  var queuedBytes = 0
  /// Bytes of lines whose end has not come yet, by ``Peer/owner``.
  var unfinishedBytes = SharedAllowance<UInt32>()
  var submitPoint: Loop.FlushPoint!
  var acknowledgePoint: Loop.FlushPoint!
  var toAcknowledge: [Connection] = []
  /// When lines were last given to the outputs, and when the next ones are if there are few.
  var submitted = Loop.Instant.distantPast
  var submitTimer: Loop.Timer?
  /// Connections that are not read from until there is space.
  var waitingForRoom: [UInt64: Connection] = [:]
  let scratch = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: readSize)

  init(loop: Loop, policy: Policy, metrics: AgentMetrics, destination: Destination) {
    self.loop = loop
    self.metrics = metrics
    self.policy = policy
    self.destination = destination
    let ingest = UncheckedReference(self)
    submitPoint = Loop.FlushPoint(on: loop, order: 0, name: "submit lines") { ingest.object?.submit() }
    acknowledgePoint = Loop.FlushPoint(on: loop, order: 1, name: "acknowledge lines") { ingest.object?.acknowledge() }
  }

  deinit { scratch.deallocate() }

  /// The number of reported stalls that have not ended, of all processes.
  var openStalls: Int { processes.values.joined().reduce(0) { $0 + $1.openStalls.count } }

  // MARK: Connections

  /// Lets services connect.
  func listen(at descriptor: Int32) throws {
    // Clients must not send descriptors: the agent would have to close them, and to close a TCP socket with SO_LINGER can take long.
    _ = clinux_refuse_descriptors(descriptor)
    let ingest = UncheckedReference(self)
    let source = Loop.DescriptorSource(descriptor, name: "services connect") { _, _ in
      ingest.object?.accept(from: descriptor)
    }
    listener = source
    try loop.add(source)
  }

  /// Whether services wait because the outputs are not accepting lines.
  var isOutOfRoom: Bool { waitingForRoom.values.contains { lacksShare($0) } }

  /// Remembers a report that was written by an earlier run of the agent.
  func remember(_ identity: ReportIdentity) { _ = recent.insert(identity) }

  /// New limits hold at once, those of who may connect for the next that do.
  func update(_ policy: Policy) {
    self.policy = policy
    resumeWaiting()
  }

  func accept(from descriptor: Int32) {
    var (admitted, refused) = (0, 0)
    defer {
      if let pause = refusalPace.pause(afterRefusing: refused, at: .now) { pauseListening(for: pause) }
    }
    while admitted < Self.acceptLimit, refused < Self.refusalLimit {
      let socket = clinux_accept(descriptor)
      if socket < 0 {
        if errno == EINTR || errno == ECONNABORTED {
          refused += 1
          continue
        }
        let code = errno
        guard code != EAGAIN else { return }
        // The machine has no files left, for example: the socket stays readable, and another attempt would fail as well.
        let shortage = descriptors.shortage(code)
        descriptorShortage = shortage
        clientLog.say(
          .error, .connectionRefused, of: nil, about: "accept",
          "cannot accept connections, which wait; retrying each second: \(shortage)")
        return pauseListening(for: .seconds(1))
      }
      guard let credentials = PeerCredentials(socket: socket) else {
        refused += 1
        Glibc.close(socket)
        continue
      }
      if connectsTooOften(socket, credentials.uid) {
        refused += 1
      } else {
        admitted += 1
        admit(socket, credentials)
      }
    }
  }

  /// Accepts no connection for a while: those that come wait in the socket's queue.
  private func pauseListening(for time: Duration) {
    guard let listener, !listener.interest.isEmpty else { return }
    listener.interest = []
    let ingest = UncheckedReference(self)
    loop.perform(after: time, name: "accept again") { _ in ingest.object?.listener?.interest = .readable }
  }

  /// The process of a new connection: a known one only if it has the credentials of the connection's own socket.
  ///
  /// A process can change them, by setresuid(2) or with the execution of a set-user-ID program.
  func process(_ peer: Peer, _ pidfd: Int32) -> PeerProcess {
    for known in processes[peer.pid] ?? [] {
      if known.hasEnded {
        // The number is another process's by now; the end of the former one has not been reported yet.
        if !known.openStalls.isEmpty { processDidEnd(known) }
      } else if known.peer.hasSameIdentity(as: peer) {
        if pidfd >= 0 { Glibc.close(pidfd) }
        return known
      }
    }
    let process = PeerProcess(peer: peer, pidfd: pidfd)
    processes[peer.pid, default: []].append(process)
    return process
  }
}
