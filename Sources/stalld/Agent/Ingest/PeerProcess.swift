import Glibc
import LoopEngine

/// A process that has connections, or stalls that have not ended: the pidfd reports its end, even if another process has inherited its sockets.
///
/// Belongs to the agent's loop.
final class PeerProcess {
  let peer: Peer
  /// -1 if it had ended when it was asked for.
  let pidfd: Int32
  /// When it started, in nanoseconds since 1970; 0 if it had ended, and when it was first met if the kernel does not say.
  let start: UInt64
  /// With whose other lines its lines wait for names; see ``Peer/namingLane``.
  let lane: String
  var connections: [UInt64: Connection] = [:]
  /// Changed by ``Ingest/changeStalls(of:_:)`` alone.
  fileprivate(set) var openStalls = OpenStalls()
  private var endSource: Loop.DescriptorSource?
  /// Whether it has ended; the end is reported when its connections have been read.
  var endIsDue = false

  /// The kernel counts in ticks of 10 ms.
  private static let clockTolerance: UInt64 = 50_000_000

  init(peer: Peer, pidfd: Int32) {
    self.peer = peer
    self.pidfd = pidfd
    lane = peer.namingLane
    let started = ProcessFigures.startTime(of: peer.pid) ?? (Self.isGone(peer.pid) ? 0 : ProcessFigures.now)
    start = UInt64(max(0, started) * 1e9)
  }

  /// Whether no process has the pid.
  static func isGone(_ pid: Int32) -> Bool { kill(pid, 0) != 0 && errno == ESRCH }

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

  /// How many pages it has been given that are still of use.
  var recoveries: Int {
    Set(
      (openStalls.recoveries + connections.values.compactMap(\.recovery)).map(ObjectIdentifier.init)
    ).count
  }

  /// Watches for the end of the process while it has stalls that have not ended: a healthy one costs no descriptor of the poller's.
  fileprivate func updateWatch(on loop: Loop, _ body: @escaping @Sendable () -> Void) {
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

extension Ingest {
  /// Changes what is known of the open stalls of a process, and all that is counted of them.
  ///
  /// No other function can change them (`fileprivate`). So what is taken for an open stall is given
  /// back when the stall ends, and when its process is forgotten.
  func changeStalls<Result>(of process: PeerProcess, _ change: (inout OpenStalls) -> Result) -> Result {
    let before = process.openStalls.bytes
    let result = change(&process.openStalls)
    openBytes.add(process.openStalls.bytes - before, for: process.peer.owner)
    process.updateWatch(on: loop, endHandler(of: process))
    return result
  }
}
