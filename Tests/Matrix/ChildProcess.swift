import Foundation
import Glibc

/// A child whose standard output is a pipe.
///
/// Foundation's `Process` knows of a child's end by a descriptor that the child inherits, which hosts here close.
struct ChildProcess: ~Copyable {
  private let process: pid_t
  private let output: Int32

  /// Starts a program, with no signal blocked and none ignored.
  init(_ command: [String], environment: [String: String]) throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw MatrixHost.Failure("pipe: errno \(errno)") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[1]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    let arguments = command.map { strdup($0) } + [nil]
    let variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { (arguments + variables).forEach { free($0) } }
    var child: pid_t = 0
    let code = posix_spawn(&child, command[0], &actions, &attributes, arguments, variables)
    guard code == 0 else {
      close(ends[0])
      throw MatrixHost.Failure("\(command[0]): errno \(code)")
    }
    process = child
    output = ends[0]
  }

  /// Reads all output and waits for the end; a child that has not ended by then is killed.
  consuming func wait(seconds: Int) -> (end: String, output: Data) {
    defer { close(output) }
    let deadline = ContinuousClock.now + .seconds(seconds)
    var data = Data()
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    var (isAtEnd, status) = (false, 0 as Int32)
    while ContinuousClock.now < deadline {
      if !isAtEnd {
        var wait = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        guard poll(&wait, 1, 200) > 0 else { continue }
        let count = read(output, &bytes, bytes.count)
        if count > 0 { data.append(contentsOf: bytes[..<count]) } else { isAtEnd = true }
      } else if waitpid(process, &status, WNOHANG) == process {
        return (status & 0x7F == 0 ? "exit \(status >> 8)" : "signal \(status & 0x7F)", data)
      } else {
        usleep(1000)
      }
    }
    kill(process, SIGKILL)
    waitpid(process, &status, 0)
    return ("did not end", data)
  }
}
