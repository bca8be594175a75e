import CLinux
import PlatformLibc
import StallCapture
import StallReport

/// What a report says of this process, found once when the watch starts.
package enum ProcessFacts {
  /// The executable's path, even if it has been removed since (then the kernel appends ` (deleted)`); without procfs as it was
  /// passed to execve(2).
  package static func executablePath() -> String {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
      let count = readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
      return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : String(cString: clinux_executable_name())
    }
  }

  /// The last part of ``executablePath()``.
  static func executableName() -> String {
    let path = executablePath()
    return path.lastPathPart ?? path
  }

  package static func hostName() -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
      gethostname(buffer.baseAddress!, buffer.count) == 0 ? String(cString: buffer.baseAddress!) : "localhost"
    }
  }

  /// An address in the main executable.
  static func executableAddress() -> UInt64 { UInt64(clinux_program_headers()) }

  /// Where the main thread's stack ends, or 0 if the kernel does not report it.
  static func mainStackEnd() -> UInt64 {
    ThreadProbe(thread: getpid()).status()?.startOfStack ?? 0
  }
}
