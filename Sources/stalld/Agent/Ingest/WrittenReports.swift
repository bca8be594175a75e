import CLinux
import CZlib
import Glibc

/// The reports at the end of a file that an earlier run of the agent has written: services that
/// have received no acknowledgement send them again.
enum WrittenReports {
  /// Usually much more than what is written and not yet acknowledged; less if one of several files fails for long.
  private static let tail = 16 << 20

  /// What of it all the files have, and by file what another one lacks: one that was behind gets it when it comes again.
  static func recall(files: [String]) -> (everywhere: [ReportIdentity], elsewhereLacking: [String: KnownReports]) {
    let all = files.map { path in
      // Small ones may have been rotated several times since. What has no compressed file of its own yet, or another program's beside it, is
      // there as a plain one.
      let rotated = RotatedFile.all(besides: path).filter { $0.form != .unfinished }
      let newestFirst = Dictionary(grouping: rotated, by: \.name).sorted { $0.key > $1.key }.prefix(64)
      return identities(
        inFiles: [path] + newestFirst.map { _, forms in (forms.first { $0.form == .plain } ?? forms[0]).path })
    }
    guard let first = all.first else { return ([], [:]) }
    if all.count == 1 { return (first, [:]) }
    let shared = all.dropFirst().reduce(Set(first)) { $0.intersection($1) }
    let rest = zip(files, all).map { ($0, KnownReports($1.filter { !shared.contains($0) })) }
    return (first.filter(shared.contains), Dictionary(rest) { $1 })
  }

  /// The identities at the end of a file and, if that is short, of the one that was rotated last; oldest first.
  ///
  /// A file that cannot be read has none: then a report may be written twice.
  static func identities(inFiles newestFirst: [String]) -> [ReportIdentity] {
    var result: [ReportIdentity] = []
    var left = tail
    for path in newestFirst where left > 0 {
      // It may have been compressed just now.
      guard let bytes = read(path, last: left) ?? read(path + ".gz", last: left) else { continue }
      left -= max(bytes.count, 1)
      result = identities(in: bytes) + result
    }
    return result
  }

  static func identities(in bytes: [UInt8]) -> [ReportIdentity] {
    bytes.withUnsafeBufferPointer { bytes in
      var result: [ReportIdentity] = []
      for line in bytes.split(separator: UInt8(ascii: "\n")) {
        if let identity = ReportIdentity(line: UnsafeBufferPointer(rebasing: line)) { result.append(identity) }
      }
      return result
    }
  }

  /// The end of a file, plain or compressed.
  private static func read(_ path: String, last limit: Int) -> [UInt8]? {
    // Nobody may be at the other end of a pipe that has the name of a file.
    let descriptor = clinux_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
    guard descriptor >= 0 else { return nil }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, let file = gzdopen(descriptor, "rb")
    else {
      close(descriptor)
      return nil
    }
    defer { gzclose(file) }
    if gzdirect(file) != 0, status.st_size > limit { gzseek(file, status.st_size - limit, SEEK_SET) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 256 << 10)
    while case let count = gzread(file, &chunk, UInt32(chunk.count)), count > 0 {
      bytes += chunk[..<Int(count)]
      if bytes.count > 2 * limit { bytes.removeFirst(bytes.count - limit) }
    }
    if bytes.count > limit { bytes.removeFirst(bytes.count - limit) }
    return bytes
  }
}

extension ReportIdentity {
  /// The identity of a report line; nil if the line is no report.
  init?(line: UnsafeBufferPointer<UInt8>) {
    guard let parts = try? LineScanner.scan(line, isStamped: true), let id = parts.stallID, id.count == 34,
      let sequence = parts.sequence.flatMap({ UInt64(String(decoding: line[$0], as: UTF8.self)) }),
      let event = parts.eventName, event.count >= 2
    else { return nil }
    self.init(
      id: line[(id.lowerBound + 1)..<(id.upperBound - 1)],
      event: String(decoding: line[event].dropFirst().dropLast(), as: UTF8.self), sequence: sequence,
      user: parts.userID.flatMap { UInt32(String(decoding: line[$0].dropFirst().dropLast(), as: UTF8.self)) } ?? 0)
  }
}
