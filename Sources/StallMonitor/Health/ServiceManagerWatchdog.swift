import DescriptorIO
import PlatformLibc

/// Notifies systemd's watchdog (`WatchdogSec=`) for as long as the loops are healthy.
///
/// Healthy is a loop without a turn that has lasted for the threshold: also one that waits, that has never turned, and that is paused. So
/// is one whose turn lasts because of the machine (`Episode.isExcused`), for ten minutes.
/// Belongs to the watchdog's thread.
struct ServiceManagerWatchdog: Sendable {
  /// How often it is notified: half of systemd's time, as sd_watchdog_enabled(3) advises.
  let interval: UInt64
  private let socket: UnixDatagramSocket
  private var next: UInt64 = 0
  private var hasComplained = false

  private static let sign: StaticString = "WATCHDOG=1"

  // Shorter times cannot be kept on a busy machine.
  private static let shortestInterval: UInt64 = 1_000_000

  init(socket: UnixDatagramSocket, interval: UInt64) {
    self.socket = socket
    self.interval = max(interval, Self.shortestInterval)
  }

  /// What systemd's variables ask this process for; nil if they ask for nothing.
  ///
  /// Invalid values are logged.
  init?(environment: Environment, processID: Int32 = getpid()) {
    guard let text = environment.variables["WATCHDOG_USEC"], !text.isEmpty else { return nil }
    guard let time = UInt64(text), (1..<UInt64.max / 1000).contains(time) else {
      Diagnostics.say(
        "WATCHDOG_USEC=\(text) is invalid; allowed: microseconds from 1. The service sends no WATCHDOG=1 to systemd")
      return nil
    }
    if let owner = environment.variables["WATCHDOG_PID"], !owner.isEmpty, owner != String(processID) {
      Diagnostics.say(
        "WATCHDOG_PID=\(owner) is not this process (\(processID)). The service sends no WATCHDOG=1 to systemd")
      return nil
    }
    let address = environment.variables["NOTIFY_SOCKET"] ?? ""
    guard let socket = UnixDatagramSocket(address: address) else {
      Diagnostics.say(
        "NOTIFY_SOCKET=\(address) is invalid; allowed: the path of a Unix socket, or @ and its abstract name, of at most 107 bytes. The service sends no WATCHDOG=1 to systemd"
      )
      return nil
    }
    self.init(socket: socket, interval: time * 1000 / 2)
  }

  /// Whether it is time to send.
  func isDue(at now: UInt64) -> Bool { now >= next }

  /// Sends `WATCHDOG=1` if it is time to, and the loops are healthy.
  ///
  /// Allocates nothing unless it complains. Returns when the next time is; nil while they are not: their recovery wakes the thread.
  mutating func notify(at now: UInt64, mayComplain: Bool = true, ifHealthy isHealthy: () -> Bool) -> UInt64? {
    guard isHealthy() else { return nil }
    guard isDue(at: now) else { return next }
    if let code = socket.send(Self.sign) {
      if !hasComplained, mayComplain {
        Diagnostics.say(
          "cannot send WATCHDOG=1 to systemd (\(socket.address)): \(String(cString: strerror(code)))")
      }
      hasComplained = hasComplained || mayComplain
      // Its queue may have been full for a moment; at the next regular time it would be too late.
      next = now + max(interval / 4, Self.shortestInterval)
    } else {
      next = now + interval
    }
    return next
  }

  /// Gives the service a last whole time, if it is well: from now on nobody watches it.
  func notifyLast(isHealthy: Bool) { if isHealthy { socket.send(Self.sign) } }

  /// Asks systemd not to expect anything: nobody watches the service, and that is no reason to kill it.
  func release() {
    guard socket.send("WATCHDOG_USEC=0") == nil else { return }
    Diagnostics.say("systemd's watchdog is switched off for this service, because no loop is watched")
  }
}
