import CLinux
import PlatformLibc
import StallCapture
import StallReport

/// What a report says of this process, found once when the watch starts.
package enum ProcessFacts {
  /// The executable's path, even if it has been removed since (then the kernel appends ` (deleted)`); without procfs as it was
  /// passed to execve(2).
  ///
  /// Of a program that was passed to the dynamic loader (`ld-linux-x86-64.so.2 ./program`) that of the program.
  package static func executablePath() -> String {
    if !clinux_has_interpreter(), let path = fileMapped(at: executableAddress()) { return path }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
      let count = readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
      return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : String(cString: clinux_executable_name())
    }
  }

  /// The file that is mapped at an address; nil without procfs.
  private static func fileMapped(at address: UInt64) -> String? {
    guard let maps = fopen("/proc/self/maps", "re") else { return nil }
    defer { fclose(maps) }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096 + 128) { line in
      // START-END PERMISSIONS OFFSET DEVICE INODE      PATH
      while fgets(line.baseAddress, Int32(line.count), maps) != nil {
        let text = String(cString: line.baseAddress!)
        let range = text.prefix { $0 != " " }.split(separator: "-")
        guard range.count == 2, let start = UInt64(range[0], radix: 16), let end = UInt64(range[1], radix: 16),
          start <= address, address < end, let slash = text.firstIndex(of: "/")
        else { continue }
        return String(text[slash...].prefix { $0 != "\n" })
      }
      return nil
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
    ThreadProbe(thread: getpid(), of: .own).status()?.startOfStack ?? 0
  }
}
