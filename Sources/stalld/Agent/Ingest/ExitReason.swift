import Glibc
import StallMonitor
import StallReport

/// The reason why a process ended, from the kernel or from systemd.
struct ExitReason: Equatable {
  var code: Int32?
  var signal: Int32?
  /// systemd's word for it (`Result=` of the unit), such as `oom-kill` or `watchdog`.
  var result: String?

  /// From the status of wait(2).
  init(status: Int32) {
    if status & 0x7f == 0 { code = (status >> 8) & 0xff } else { signal = status & 0x7f }
  }

  init(code: Int32? = nil, signal: Int32? = nil, result: String? = nil) {
    self.code = code
    self.signal = signal
    self.result = result
  }

  /// Follows "the process".
  var sentence: String {
    let by = result.map { " (systemd: \($0))" } ?? ""
    if let signal { return "was killed by \(Self.name(of: signal))\(by)" }
    if let code { return "exited with code \(code)\(by)" }
    return "ended\(by)"
  }

  /// For the report's `process`.
  var members: JSONWriter {
    var line = JSONWriter()
    line.member("exit_code", code)
    line.member("exit_signal", signal.map(Self.name(of:)))
    line.member("exit_result", result)
    return line
  }

  private static func name(of signal: Int32) -> String {
    let names: [Int32: String] = [
      SIGHUP: "SIGHUP", SIGINT: "SIGINT", SIGQUIT: "SIGQUIT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP", SIGABRT: "SIGABRT",
      SIGBUS: "SIGBUS", SIGFPE: "SIGFPE", SIGKILL: "SIGKILL", SIGUSR1: "SIGUSR1", SIGSEGV: "SIGSEGV",
      SIGUSR2: "SIGUSR2", SIGPIPE: "SIGPIPE", SIGALRM: "SIGALRM", SIGTERM: "SIGTERM", SIGXCPU: "SIGXCPU",
      SIGXFSZ: "SIGXFSZ", SIGSYS: "SIGSYS",
    ]
    return names[signal] ?? "signal \(signal)"
  }
}
