import CLinux
import Glibc

/// The descriptors that the process may have, and the reserve that clients never get.
///
/// The kernel gives a new file the lowest free number. A client's file with a number in the reserve
/// therefore means that all lower numbers are taken, and the client is refused. So outputs,
/// commands and scrapes work, and refusals are answered, however many clients there are.
struct DescriptorLimit: Equatable {
  /// Why the agent cannot run.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// What a connection takes at most: its socket, its process (pidfd), and its recovery memory.
  static let ofConnection = 3

  /// What the agent opens after its start: its own connection and the processes that look up function names.
  private static let openedLater = 8

  /// RLIMIT_NOFILE.
  let limit: Int

  /// How many numbers, the highest ones, are the agent's own.
  var reserve: Int { min(max(limit / 4, 16), 256) }

  /// The present limit.
  static var current: DescriptorLimit {
    var values = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &values)
    return DescriptorLimit(limit: Int(clamping: values.rlim_cur))
  }

  /// Raises the limit to the most that is allowed.
  static func raise() {
    var values = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &values) == 0 else { return }
    values.rlim_cur = values.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &values)
  }

  /// Whether a descriptor takes a number of the reserve.
  func isReserved(_ descriptor: Int32) -> Bool { Int(descriptor) >= limit - reserve }

  /// Moves a client's descriptor to the lowest free number; false if that is in the reserve, too.
  func moveOutOfReserve(_ descriptor: inout Int32) -> Bool {
    guard isReserved(descriptor) else { return true }
    let lower = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    guard lower >= 0 else { return false }
    let isFree = !isReserved(lower)
    close(isFree ? descriptor : lower)
    if isFree { descriptor = lower }
    return isFree
  }

  /// Whether a client's socket and its pidfd would get numbers outside the reserve.
  var allowsConnection: Bool {
    let files = [Self.makeFile(), Self.makeFile()]
    defer { for file in files where file >= 0 { close(file) } }
    return files.allSatisfy { $0 >= 0 && !isReserved($0) }
  }

  /// What the limit allows of that many connections, in words; nil if it allows all of them.
  ///
  /// `open` of them are there already.
  /// - Throws: If it allows none.
  func restriction(of connections: Int, open: Int) throws(Failure) -> String? {
    let lowest = Self.makeFile()
    if lowest >= 0 { close(lowest) }
    let free = lowest < 0 ? 0 : max(0, limit - reserve - Int(lowest) - Self.openedLater)
    let allowed = open + free / Self.ofConnection
    let subject = "the limit of open files (RLIMIT_NOFILE) is \(limit)"
    guard allowed > 0 else {
      throw Failure(description: "\(subject), too few for the agent and one connection; \(Self.advice)")
    }
    guard allowed < connections else { return nil }
    return "\(subject): some clients are refused when there are more than \(allowed) connections, "
      + "while limits.connections is \(connections); \(Self.advice)"
  }

  /// The smallest kind of file.
  private static func makeFile() -> Int32 { eventfd(0, Int32(EFD_CLOEXEC)) }

  /// Why there is no descriptor, with what to do; `code` is an errno value.
  func shortage(_ code: Int32 = EMFILE) -> String {
    switch code {
    case EMFILE: "no descriptors are left for clients (RLIMIT_NOFILE is \(limit)); \(Self.advice)"
    case ENFILE: "the machine allows no more open files; raise fs.file-max, or find who has so many"
    default: SystemError(code: code).description
    }
  }

  static let advice = "raise LimitNOFILE= of the unit, or ulimit -n, and restart the agent"
}
