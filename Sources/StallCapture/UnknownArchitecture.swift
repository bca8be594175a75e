#if !arch(x86_64) && !arch(arm64)
import CUnwind

// An architecture without a folder: no system call has a name, and a cause that hangs on it is unknown.

enum SystemCallNumbers {
  static let table: StaticString = ""
  static let restart: Int64? = nil
}

extension ThreadProbe.BlockedCall {
  func restartedNumber(in process: ProcessHandle) -> Int64? { nil }
}

extension cunwind_snapshot {
  mutating func setArguments(of call: ThreadProbe.BlockedCall) {}
}
#endif
