import ArgumentParser
import Glibc
import StallMonitor

/// The demo's service as a process of its own, with its standard output in a pipe.
enum DemoProcess {
  /// Runs the service and hands over each of its lines, with the newline.
  ///
  /// Returns its wait status.
  static func run(_ take: ([UInt8]) -> Void) throws -> Int32 {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw failure("pipe") }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    posix_spawn_file_actions_addclose(&actions, ends[0])
    posix_spawn_file_actions_addclose(&actions, ends[1])
    defer { posix_spawn_file_actions_destroy(&actions) }

    var arguments = cStrings(["stalld", "demo", "--host"])
    var variables = cStrings(environment())
    defer { (arguments + variables).forEach { free($0) } }
    var child: pid_t = 0
    let code = posix_spawn(&child, executablePath(), &actions, nil, &arguments, &variables)
    close(ends[1])
    defer { close(ends[0]) }
    guard code == 0 else {
      errno = code
      throw failure("posix_spawn")
    }
    read(from: ends[0], take)
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0 && errno == EINTR {}
    return status
  }

  private static func read(from descriptor: Int32, _ take: ([UInt8]) -> Void) {
    var line: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count < 0 && errno == EINTR { continue }
      if count <= 0 { break }
      for byte in buffer[..<count] {
        line.append(byte)
        if byte == UInt8(ascii: "\n") {
          take(line)
          line.removeAll(keepingCapacity: true)
        }
      }
    }
    if !line.isEmpty { take(line) }
  }

  private static func environment() -> [String] {
    var entries: [String] = []
    var entry = environ
    while let text = entry.pointee {
      let pair = String(cString: text)
      if !pair.hasPrefix("STALLMONITOR_") { entries.append(pair) }
      entry += 1
    }
    return entries
  }

  private static func cStrings(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
    texts.map { strdup($0) } + [nil]
  }

  // argv[0] may be relative to a directory that is no longer the current one; procfs works even for a removed file.
  static func executablePath() -> String {
    let path = ProcessFacts.executablePath()
    return access(path, X_OK) == 0 ? path : "/proc/self/exe"
  }

  private static func failure(_ call: String) -> ValidationError {
    ValidationError("cannot start the demo's service: \(call): \(String(cString: strerror(errno)))")
  }
}
