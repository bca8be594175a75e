import Glibc
import LoopEngine
import StallReport

/// A process that has connections, or stalls that have not ended: the pidfd reports its end, even if another process has inherited its sockets.
///
/// Belongs to the agent's loop.
final class PeerProcess {
  let peer: Peer
  /// -1 if it had ended when it was asked for.
  let pidfd: Int32
  /// When it started, in nanoseconds since 1970; when it was first met, if the kernel does not say.
  let start: UInt64
  /// With whose other lines its lines wait for names; see ``Peer/namingLane``.
  let lane: String
  var connections: [UInt64: Connection] = [:]
  private(set) var openStalls: [String: OpenStall] = [:]
  /// Of their lines.
  private(set) var openBytes = 0
  private var endSource: Loop.DescriptorSource?
  /// Whether it has ended; the end is reported when its connections have been read.
  var endIsDue = false

  /// Stalls of one process at a time: it has fewer loops.
  private static let openLimit = 256
  /// The kernel counts in ticks of 10 ms.
  private static let clockTolerance: UInt64 = 50_000_000

  init(peer: Peer, pidfd: Int32) {
    self.peer = peer
    self.pidfd = pidfd
    lane = peer.namingLane
    start = UInt64(max(0, ProcessFigures.startTime(of: peer.pid) ?? ProcessFigures.now) * 1e9)
  }

  /// Whether it can be this process's that was reported at that time: pids come again, in a container always the same.
  func canHaveReported(at time: UInt64) -> Bool { time >= start - min(start, Self.clockTolerance) }

  deinit {
    endSource?.invalidate()
    if pidfd >= 0 { close(pidfd) }
  }

  var hasEnded: Bool {
    var poller = pollfd(fd: pidfd, events: Int16(POLLIN), revents: 0)
    return pidfd < 0 || poll(&poller, 1, 0) > 0
  }

  /// Follows what a report says of its stall; false if that would need more than `room` bytes for all of them.
  func follow(_ line: ReportLine, sequence: UInt64, room: Int, recovery: RecoveryMemory?) -> Bool {
    let old = openStalls[line.stallID]
    let oldBytes = old?.line.bytes.count ?? 0
    switch Report.Event(rawValue: line.event) {
    case .started, .ongoing:
      // What is known already is worth more than nothing.
      guard openBytes - oldBytes + line.bytes.count <= room, old != nil || openStalls.count < Self.openLimit else {
        return false
      }
      openStalls[line.stallID] = OpenStall(line: line, sequence: sequence, recovery: recovery ?? old?.recovery)
      openBytes += line.bytes.count - oldBytes
    case .ended, .fatal:
      openStalls[line.stallID] = nil
      openBytes -= oldBytes
    // The last: of a later version.
    case .suppressed, nil: break
    }
    return true
  }

  /// How many pages it has been given that are still of use.
  var recoveries: Int {
    Set(
      (openStalls.values.compactMap(\.recovery) + connections.values.compactMap(\.recovery)).map(ObjectIdentifier.init)
    ).count
  }

  /// The stalls that have not ended, oldest first; they are forgotten.
  func takeStalls() -> [OpenStall] {
    defer { (openStalls, openBytes) = ([:], 0) }
    return openStalls.values.sorted { $0.sequence < $1.sequence }
  }

  /// Watches for the end of the process while it has stalls that have not ended: a healthy one costs no descriptor of the poller's.
  func updateWatch(on loop: Loop, _ body: @escaping @Sendable () -> Void) {
    if openStalls.isEmpty {
      endSource?.invalidate()
      endSource = nil
    } else if endSource == nil, pidfd >= 0 {
      let source = Loop.DescriptorSource(pidfd, name: "end of a service") { source, _ in
        source.invalidate()
        body()
      }
      endSource = source
      try? loop.add(source)
    }
  }
}
