import CLinux
import Glibc
import LoopEngine

/// Asks the kernel, and then systemd, how a process has ended.
///
/// On the agent's loop, which never waits for them.
final class ExitInquiry {
  private let process: PeerProcess
  private let loop: Loop
  private let answer: (ExitReason) -> Void
  private var reason = ExitReason()
  private var tries = 0
  private var isAnswered = false
  private var asksSystemd = true
  private var output: Int32 = -1

  /// The kernel knows once the parent has waited for it.
  private static let delays: [Duration] = [
    .zero, .milliseconds(10), .milliseconds(50), .milliseconds(200), .milliseconds(500),
  ]
  private static let systemdLimit: Duration = .seconds(2)

  init(_ process: PeerProcess, on loop: Loop, answer: @escaping (ExitReason) -> Void) {
    self.process = process
    self.loop = loop
    self.answer = answer
  }

  /// `asksSystemd` is whether there may be a `systemctl` for it.
  func begin(asksSystemd: Bool) {
    self.asksSystemd = asksSystemd
    askKernel()
  }

  /// Answers with what is known by now.
  func finish() {
    guard !isAnswered else { return }
    isAnswered = true
    if output >= 0 { close(output) }
    answer(reason)
  }

  private func askKernel() {
    guard !isAnswered else { return }
    var status: Int32 = 0
    if process.pidfd >= 0, clinux_pidfd_exit_status(process.pidfd, &status) {
      reason = ExitReason(status: status)
      return askSystemd()
    }
    tries += 1
    guard tries < Self.delays.count else { return askSystemd() }
    let inquiry = Unchecked(self)
    loop.perform(after: Self.delays[tries], name: "exit status of a service") { _ in inquiry.value.askKernel() }
  }

  /// `systemctl show`, for the units that systemd keeps a result of.
  private func askSystemd() {
    guard asksSystemd, let unit = process.peer.unit, unit.hasSuffix(".service"), !unit.hasPrefix("-"),
      access("/run/systemd/system", F_OK) == 0
    else { return finish() }
    var pipe: [Int32] = [-1, -1]
    guard Glibc.pipe(&pipe) == 0 else { return finish() }
    output = pipe[0]
    _ = clinux_set_descriptor_flags(pipe[0])
    defer { close(pipe[1]) }
    let arguments = ["systemctl", "show", "--property=Result,ExecMainPID,ExecMainCode,ExecMainStatus", "--", unit]
    guard let child = Self.spawn("/usr/bin/systemctl", arguments, output: pipe[1]) else { return finish() }
    let inquiry = Unchecked(self)
    let ended = try? Loop.ChildSource(child, name: "systemctl") { _ in inquiry.value.readSystemd() }
    guard let ended else { return finish() }
    try? loop.add(ended)
    loop.perform(after: Self.systemdLimit, name: "systemctl takes too long") { _ in
      guard !inquiry.value.isAnswered else { return }
      kill(child, SIGKILL)
      inquiry.value.finish()
    }
  }

  private func readSystemd() {
    guard !isAnswered else { return }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(output, &bytes, bytes.count)
    var values: [Substring: Substring] = [:]
    for line in String(decoding: bytes[..<max(0, count)], as: UTF8.self).split(separator: "\n") {
      guard let equals = line.firstIndex(of: "=") else { continue }
      values[line[..<equals]] = line[line.index(after: equals)...]
    }
    // The unit may run another process by now, or this was not its main one: then its result is not about this process.
    if values["ExecMainPID"].flatMap({ Int32($0) }) == process.peer.pid,
      let code = values["ExecMainCode"].flatMap({ Int32($0) }), code != 0,
      let status = values["ExecMainStatus"].flatMap({ Int32($0) })
    {
      if reason.code == nil, reason.signal == nil {
        if code == CLD_EXITED { reason.code = status } else { reason.signal = status }
      }
      if let result = values["Result"], result != "success", !result.isEmpty { reason.result = String(result) }
    }
    finish()
  }

  private static func spawn(_ path: String, _ arguments: [String], output: Int32) -> Int32? {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    guard posix_spawn_file_actions_init(&actions) == 0, posix_spawnattr_init(&attributes) == 0 else { return nil }
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output, 1)
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
    // The agent blocks its stop signals.
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var list = arguments.map { strdup($0) } + [nil]
    defer { list.forEach { free($0) } }
    var child: pid_t = 0
    var environment: [UnsafeMutablePointer<CChar>?] = [strdup("LC_ALL=C"), nil]
    defer { environment.forEach { free($0) } }
    return posix_spawn(&child, path, &actions, &attributes, &list, &environment) == 0 ? child : nil
  }
}

/// A value that a closure of the agent's loop needs, which must be `Sendable`.
struct Unchecked<Value>: @unchecked Sendable {
  // @unchecked: made, and used, on the agent's loop alone.
  let value: Value

  init(_ value: Value) { self.value = value }
}
