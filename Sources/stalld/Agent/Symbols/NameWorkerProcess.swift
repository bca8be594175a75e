import CLinux
import Glibc
import LoopEngine

/// The process that names functions, as the agent has it: what is sent to it, what it says, how long it works, and its end.
///
/// It reads other users' files, so its answers are not trusted: the receiver checks them. Belongs to the agent's loop.
final class NameWorkerProcess {
  /// How it is started.
  struct Program {
    var path: String
    var arguments: [String]
  }

  /// Why there is none.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  let process: Int32
  /// It has answered a line.
  private(set) var hasAnswered = false
  private let socket: Int32
  private var source: Loop.DescriptorSource?
  private var end: Loop.ChildSource?
  private var input = NamingMessage.Input(longest: Ingest.longestReport + 1024)
  private var output: [UInt8] = []
  private var written = 0
  private let didAnswer: (NamingMessage.Answer) -> Void
  private let didEnd: (NameWorkerProcess, String) -> Void
  private var isClosed = false

  /// `didEnd` is called once, with how it ended, when it has been waited for.
  init(
    _ program: Program, loop: Loop, didAnswer: @escaping (NamingMessage.Answer) -> Void,
    didEnd: @escaping (NameWorkerProcess, String) -> Void
  ) throws(Failure) {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
      throw Failure(description: "socketpair: \(String(cString: strerror(errno)))")
    }
    defer { close(ends[1]) }
    _ = clinux_set_descriptor_flags(ends[0])
    var child: Int32 = 0
    let code = Self.spawn(program, standardInput: ends[1], &child)
    guard code == 0 else {
      close(ends[0])
      throw Failure(description: "\(program.path): \(String(cString: strerror(code)))")
    }
    process = child
    socket = ends[0]
    self.didAnswer = didAnswer
    self.didEnd = didEnd
    do {
      try watch(on: loop)
    } catch {
      kill()
      waitpid(child, nil, 0)
      throw Failure(description: "\(error)")
    }
  }

  deinit { closeSocket() }

  private func watch(on loop: Loop) throws {
    let worker = UncheckedReference(self)
    let end = try Loop.ChildSource(process, name: "end of the name worker") { status in
      guard let worker = worker.object else { return }
      worker.closeSocket()
      worker.didEnd(worker, "\(status)")
    }
    try loop.add(end)
    self.end = end
    let source = Loop.DescriptorSource(socket, name: "name worker") { _, readiness in
      guard let worker = worker.object else { return }
      if readiness.contains(.writable) { worker.flush() }
      if !readiness.isDisjoint(with: [.readable, .hangUp, .error]) { worker.read() }
    }
    try loop.add(source)
    self.source = source
  }

  private static func spawn(_ program: Program, standardInput: Int32, _ child: inout Int32) -> Int32 {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    guard posix_spawn_file_actions_init(&actions) == 0, posix_spawnattr_init(&attributes) == 0 else { return ENOMEM }
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    posix_spawn_file_actions_adddup2(&actions, standardInput, 0)
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    // The agent blocks its stop signals, and ignores SIGPIPE. A SIGHUP to all processes of the unit is meant for the agent.
    var (blocked, own) = (sigset_t(), sigset_t())
    sigemptyset(&blocked)
    sigaddset(&blocked, SIGHUP)
    sigemptyset(&own)
    sigaddset(&own, SIGPIPE)
    posix_spawnattr_setsigmask(&attributes, &blocked)
    posix_spawnattr_setsigdefault(&attributes, &own)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var variables = ["LC_ALL=C", "SWIFT_BACKTRACE=enable=no"]
    if let path = getenv("LD_LIBRARY_PATH") { variables.append("LD_LIBRARY_PATH=\(String(cString: path))") }
    var (list, environment) = (
      (["stalld"] + program.arguments).map { strdup($0) } + [nil], variables.map { strdup($0) } + [nil]
    )
    defer { (list + environment).forEach { free($0) } }
    return posix_spawn(&child, program.path, &actions, &attributes, &list, &environment)
  }

  // MARK: Messages

  /// What has not been taken by the socket yet.
  var unsentBytes: Int { output.count - written }

  func send(_ request: NamingMessage.Request) { output += request.bytes }

  /// Writes what the socket takes.
  func flush() {
    while written < output.count, !isClosed {
      let count = output.withUnsafeBytes {
        Glibc.send(socket, $0.baseAddress! + written, $0.count - written, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      }
      if count < 0, errno == EINTR { continue }
      if count < 0 { break }
      written += count
    }
    if written == output.count {
      output.removeAll(keepingCapacity: true)
      written = 0
    }
    let interest: Loop.DescriptorSource.Readiness = output.isEmpty ? .readable : [.readable, .writable]
    if !isClosed, let source, source.interest != interest { source.interest = interest }
  }

  private func read() {
    guard !isClosed else { return }
    let count = withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 1) { buffer in
      let count = recv(socket, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
      if count > 0 { input.append(buffer[..<count]) }
      return count
    }
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    while count > 0, !isClosed, let message = input.next() {
      guard let answer = NamingMessage.Answer(message) else { return kill() }
      if answer.kind != .begun { hasAnswered = true }
      didAnswer(answer)
    }
    // At the end, or after nonsense, it is of no use any more.
    if count <= 0 || input.isBroken { kill() }
  }

  private func closeSocket() {
    guard !isClosed else { return }
    isClosed = true
    source?.invalidate()
    source = nil
    close(socket)
  }

  // MARK: How long it works

  /// Kills it; `didEnd` is called when it has been waited for.
  func kill() {
    closeSocket()
    _ = Glibc.kill(process, SIGKILL)
  }

  /// Its time on processors in ns; nil if the kernel does not say.
  var processorTime: UInt64? {
    var (clock, time) = (clockid_t(), timespec())
    guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else { return nil }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// It runs, or waits for a processor, and for nothing else.
  var isRunnable: Bool { ProcessFigures.isRunnable(process) }

  /// Its memory in bytes.
  var residentBytes: Int { ProcessFigures.residentBytes(of: process) }
}
