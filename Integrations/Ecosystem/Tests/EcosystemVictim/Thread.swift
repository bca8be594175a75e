import Glibc

/// A thread of this process, as the kernel counts it.
enum Thread {
  /// The id of the thread of that name; 0 if there is none.
  static func of(_ name: String) -> Int32 {
    guard let directory = opendir("/proc/self/task") else { return 0 }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let id = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if text(of: "/proc/self/task/\(id)/comm") == name + "\n" { return Int32(id) ?? 0 }
    }
    return 0
  }

  /// How often the thread has given its processor up by itself; -1 if it is not there.
  static func switches(of id: Int32) -> Int {
    for line in text(of: "/proc/self/task/\(id)/status")?.split(separator: "\n") ?? []
    where line.hasPrefix("voluntary_ctxt_switches:") {
      return line.split(separator: "\t").last.flatMap { Int($0) } ?? -1
    }
    return -1
  }

  private static func text(of path: String) -> String? {
    let file = open(path, O_RDONLY)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 8192)
    let count = read(file, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
  }
}
