import StallMonitor
import StallReport

/// The identity that the agent writes into each line of a connection: process, user and unit, from
/// the kernel.
///
/// The line's own values of them are left out, except another pid, which stays as
/// `process.reported_pid`: that of an ended process whose reports are handed over, or the one in
/// another PID namespace.
struct Stamp {
  private let processID: Int
  private let beforeExecutable: [UInt8]
  private let afterProcess: [UInt8]

  init(_ peer: Peer) {
    processID = Int(peer.pid)
    var process = JSONWriter()
    process.member("pid", peer.pid)
    process.object("user") { $0.member("id", String(peer.uid)) }
    process.object("group") { $0.member("id", String(peer.gid)) }
    if let cgroup = peer.cgroup { process.object("linux") { $0.member("cgroup", cgroup) } }
    beforeExecutable = Array("\"process\":{".utf8) + process.bytes
    var systemd = JSONWriter()
    if let unit = peer.unit { systemd.object("systemd") { $0.member("unit", unit) } }
    afterProcess = systemd.bytes.isEmpty ? [] : [UInt8(ascii: ",")] + systemd.bytes
  }

  /// The line with its newline.
  ///
  /// A line without `process` gets one at its end.
  func apply(to line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(line.count + beforeExecutable.count + afterProcess.count + 32)
    let end = (line.lastIndex(of: UInt8(ascii: "}")) ?? 0)
    if let process = parts.process {
      result.append(contentsOf: line[..<process.lowerBound])
      appendProcess(line, parts, to: &result)
      result.append(contentsOf: line[process.upperBound...end])
    } else {
      result.append(contentsOf: line[..<end])
      result.append(UInt8(ascii: ","))
      appendProcess(line, parts, to: &result)
      result.append(UInt8(ascii: "}"))
    }
    result.append(UInt8(ascii: "\n"))
    return result
  }

  private func appendProcess(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, to result: inout [UInt8]
  ) {
    result += beforeExecutable
    if let reported = parts.reportedProcessID(in: line), reported != processID {
      result += Array(",\"reported_pid\":\(reported)".utf8)
    }
    if let executable = parts.executable {
      result += Array(",\"executable\":".utf8)
      result.append(contentsOf: line[executable])
    }
    result.append(UInt8(ascii: "}"))
    result += afterProcess
  }
}

extension LineScanner.Parts {
  /// What the line itself says of `process.pid`, if that can be one.
  func reportedProcessID(in line: UnsafeBufferPointer<UInt8>) -> Int? {
    guard let processID, let number = Int32(String(decoding: line[processID], as: UTF8.self)), number > 0 else {
      return nil
    }
    return Int(number)
  }
}
