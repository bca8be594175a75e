import BenchmarkSupport
import Foundation

/// The memory that a watched process has for itself alone (`Private_Dirty` of smaps), beside one that is not watched.
///
/// The memory of the libraries that the monitor opens is listed separately: their relocated and
/// written pages.
enum FixedMemory {
  static func run() throws -> [BenchmarkRow] {
    let alone = try memory("alone")
    let started = try memory("started")
    let captured = try memory("captured")
    func difference(_ watched: [String: Int]) -> (own: Double, libraries: Double) {
      let libraries = watched.filter { $0.key.contains(".so") && alone[$0.key] == nil }.reduce(0) { $0 + $1.value }
      let total = watched.values.reduce(0, +) - alone.values.reduce(0, +)
      return (Double(total - libraries), Double(libraries))
    }
    let name = "memory of the monitor, no symbols"
    return [
      BenchmarkRow(benchmark: name, subject: "after the start", value: difference(started).own, unit: "KiB"),
      BenchmarkRow(benchmark: name, subject: "after captures", value: difference(captured).own, unit: "KiB", bar: 1024),
      BenchmarkRow(
        benchmark: name, subject: "libunwind, libdw and theirs", value: difference(captured).libraries, unit: "KiB"),
    ]
  }

  private static func memory(_ state: String) throws -> [String: Int] {
    let child = try ChildProcess(["memory", state])
    defer { child.end() }
    guard let data = child.line()?.data(using: .utf8),
      let sizes = try? JSONDecoder().decode([String: Int].self, from: data)
    else { throw BenchmarkError("a child did not say what memory it has") }
    return sizes
  }

  /// A file of procfs is read until nothing more comes: it gives a page or less at a time.
  private static func whole(_ path: String) throws -> String {
    let descriptor = open(path, O_RDONLY)
    guard descriptor >= 0 else { throw BenchmarkError("\(path) cannot be read") }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 65_536)
    while case let count = read(descriptor, &part, part.count), count > 0 { bytes += part[..<count] }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Private dirty KiB by mapping, of this process.
  static func ownMappings() throws -> [String: Int] {
    var sizes: [String: Int] = [:]
    var name = ""
    for line in try whole("/proc/self/smaps").split(separator: "\n") {
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      if words[0] == "Private_Dirty:" {
        sizes[name, default: 0] += Int(words[1]) ?? 0
      } else if !words[0].hasSuffix(":") {
        name = words.count > 5 ? words[5...].joined(separator: " ") : "anonymous"
      }
    }
    return sizes
  }
}
