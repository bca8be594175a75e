import PlatformLibc
import StallReport

/// The arguments of a system call in words.
///
/// Each look-up is bounded and checked: the memory may be gone, and paths may hold anything.
struct SystemCallArguments {
  var call: ThreadProbe.BlockedCall
  /// The thread that makes it, which may have a descriptor table of its own.
  ///
  /// Nil for the process's first thread.
  var thread: Int32?
  var process: ProcessHandle
  /// Whether descriptors and memory are looked up; otherwise only numbers are shown.
  var isLookingUp: Bool

  private static let textLimit = 160

  /// A descriptor and what it leads to: `fd 7 → pipe:[1234]`.
  func descriptor(_ number: Int32) -> String {
    "fd \(number)\(isLookingUp ? target(of: number).map { " → " + $0 } ?? "" : "")"
  }

  private func target(of descriptor: Int32) -> String? {
    withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
      let bytes = buffer.bindMemory(to: CChar.self)
      let directory = thread.map { process.directory(of: $0) } ?? process.directory
      let count = readlink("\(directory)/fd/\(descriptor)", bytes.baseAddress!, bytes.count)
      guard count > 0 else { return nil }
      return String(printable: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
        .limited(to: Self.textLimit)
    }
  }

  func path(_ address: UInt64) -> String? {
    isLookingUp ? process.string(at: address, limit: Self.textLimit) : nil
  }

  /// The descriptors of a poll: the first, and how many more.
  var polled: String {
    let count = call.arguments.1
    guard isLookingUp, count > 0, let first = process.load(call.arguments.0, as: Int32.self) else {
      return "\(count) descriptor\(count == 1 ? "" : "s")"
    }
    return descriptor(first) + (count > 1 ? " and \(count - 1) more" : "")
  }

  /// A timeout in milliseconds, negative for none.
  func timeout(_ milliseconds: UInt64) -> String {
    let value = Int32(truncatingIfNeeded: milliseconds)
    return value < 0 ? "no timeout" : "timeout " + Self.text(nanoseconds: UInt64(value) * 1_000_000)
  }

  /// A timeout in memory, null for none.
  func timeout(at address: UInt64, fractionUnit: UInt64 = 1) -> String? {
    if address == 0 { return "no timeout" }
    return duration(at: address, fractionUnit: fractionUnit).map { "timeout " + $0 }
  }

  /// A `timespec`, or a `timeval` with a `fractionUnit` of 1000.
  func duration(at address: UInt64, fractionUnit: UInt64 = 1) -> String? {
    guard isLookingUp, let time = process.load(address, as: (UInt64, UInt64).self), time.0 < 1 << 32,
      time.1 < 1_000_000_000
    else { return nil }
    return Self.text(nanoseconds: time.0 * 1_000_000_000 + time.1 * fractionUnit)
  }

  static func text(nanoseconds: UInt64) -> String {
    switch nanoseconds {
    case ..<1_000_000: "\(nanoseconds / 1000) us"
    case ..<60_000_000_000: "\(nanoseconds / 1_000_000) ms"
    default: "\(nanoseconds / 1_000_000_000) s"
    }
  }

  /// wait4(2): a process, a group (negative), the own group (0), or any child (-1).
  func child(_ argument: UInt64) -> String {
    switch Int32(truncatingIfNeeded: argument) {
    case -1: "any child"
    case 0: "a child of its group"
    case let process where process > 0: "pid \(process)"
    case let group: "group \(-Int64(group))"
    }
  }

  /// waitid(2): P_ALL, P_PID, P_PGID, P_PIDFD.
  func child(type: UInt64, _ argument: UInt64) -> String {
    switch type {
    case 1: "pid \(Int32(truncatingIfNeeded: argument))"
    case 2: "group \(Int32(truncatingIfNeeded: argument))"
    case 3: "the process of fd \(Int32(truncatingIfNeeded: argument))"
    default: "any child"
    }
  }

  /// A `sockaddr` (ip(7), ipv6(7), unix(7)).
  func socketAddress(_ address: UInt64, length: UInt64) -> String? {
    guard isLookingUp else { return nil }
    return withUnsafeTemporaryAllocation(byteCount: 110, alignment: 8) { buffer in
      let count = process.read(address, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(min(length, 110))]))
      let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
      guard count >= 4 else { return nil }
      let port = UInt16(bigEndian: bytes.load(fromByteOffset: 2, as: UInt16.self))
      switch Int32(bytes.load(as: UInt16.self)) {
      case AF_INET where count >= 8: return bytes[4..<8].map(String.init).joined(separator: ".") + ":\(port)"
      case AF_INET6 where count >= 24:
        let groups = stride(from: 8, to: 24, by: 2).map {
          String(UInt16(bigEndian: bytes.load(fromByteOffset: $0, as: UInt16.self)), radix: 16)
        }
        return "[" + groups.joined(separator: ":") + "]:\(port)"
      case AF_UNIX:
        // An abstract name begins with a zero, and has its own length.
        let isAbstract = bytes[2] == 0
        let name = isAbstract ? bytes[3...] : bytes[2...].prefix { $0 != 0 }
        return (isAbstract ? "@" : "") + String(printable: name)
      default: return nil
      }
    }
  }
}
