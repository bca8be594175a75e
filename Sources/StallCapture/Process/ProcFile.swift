import CLinux
import DescriptorIO
import PlatformLibc

/// A file under `/proc`, opened once and read repeatedly.
///
/// Descriptors opened when the watch starts keep working when the process later becomes non-dumpable (setuid).
package struct ProcFile: ~Copyable {
  private let descriptor: GuardedDescriptor

  /// Opens the file, or returns nil: the thread is gone, or there is no procfs.
  package init?(_ path: String) {
    guard let descriptor = GuardedDescriptor(clinux_open(path, O_RDONLY | O_CLOEXEC, 0)) else { return nil }
    self.descriptor = descriptor
  }

  deinit { descriptor.close() }

  /// Reads from the start, or from an offset, into `buffer`.
  ///
  /// Returns the number of bytes, or nil if the thread has ended. About 2 us.
  package borrowing func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64 = 0) -> Int? {
    guard descriptor.isIntact else { return nil }
    let count = pread(descriptor.number, buffer.baseAddress, buffer.count, Int(offset))
    return count > 0 ? count : nil
  }

  /// Whether the thread whose `syscall` file it is has ended; nil if the process has closed the descriptor.
  ///
  /// A main thread that has ended before the others keeps its file, but has no stack any more.
  package borrowing func threadHasEnded() -> Bool? {
    guard descriptor.isIntact else { return nil }
    return withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { buffer in
      let count = pread(descriptor.number, buffer.baseAddress, buffer.count, 0)
      guard count >= 0 else { return errno == ESRCH }
      return buffer[..<count].elementsEqual("-1 0x0 0x0\n".utf8)
    }
  }

  /// Reads from the start and parses what was read.
  ///
  /// Allocates nothing if `capacity` is at most 1024.
  package borrowing func parse<T>(capacity: Int = 1024, _ body: (UnsafeRawBufferPointer) -> T?) -> T? {
    withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 1) { buffer in
      guard let count = read(into: buffer) else { return nil }
      return body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }
  }
}

/// Reads the small decimal and hexadecimal numbers of procfs lines, a field at a time.
package struct FieldScanner {
  private let bytes: UnsafeRawBufferPointer
  package private(set) var position = 0

  package init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  /// Scans what follows the first occurrence of `key`; nil if there is none.
  package init?(after key: StaticString, in text: UnsafeRawBufferPointer) {
    let length = key.utf8CodeUnitCount
    guard length <= text.count,
      let start = (0...text.count - length).first(where: { memcmp(text.baseAddress! + $0, key.utf8Start, length) == 0 })
    else { return nil }
    (bytes, position) = (text, start + length)
  }

  /// The next field without its surrounding blanks, or nil at the end of the line.
  package mutating func field() -> UnsafeRawBufferPointer? {
    while position < bytes.count, bytes[position] == UInt8(ascii: " ") || bytes[position] == UInt8(ascii: "\t") {
      position += 1
    }
    let start = position
    while position < bytes.count, bytes[position] > UInt8(ascii: " ") { position += 1 }
    return position > start ? UnsafeRawBufferPointer(rebasing: bytes[start..<position]) : nil
  }

  /// The next field as a number: decimal, negative, or hexadecimal after `0x`.
  package mutating func number() -> Int64? {
    guard let field = field() else { return nil }
    return Self.number(field)
  }

  /// Goes behind the last occurrence of `byte` (a thread's name in `stat` may hold blanks and parentheses).
  package mutating func skip(pastLast byte: UInt8) -> Bool {
    guard let index = bytes.lastIndex(of: byte) else { return false }
    position = index + 1
    return true
  }

  package static func number(_ field: UnsafeRawBufferPointer, radix: UInt64? = nil) -> Int64? {
    var index = 0
    var negative = false
    var radix = radix ?? 10
    if field.first == UInt8(ascii: "-") { (negative, index) = (true, 1) }
    if field.count > index + 2, field[index] == UInt8(ascii: "0"), field[index + 1] == UInt8(ascii: "x") {
      (radix, index) = (16, index + 2)
    }
    guard index < field.count else { return nil }
    var value: UInt64 = 0
    while index < field.count {
      let digit: UInt64
      switch field[index] {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = UInt64(field[index] - UInt8(ascii: "0"))
      case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = UInt64(field[index] - UInt8(ascii: "a")) + 10
      default: return nil
      }
      guard digit < radix else { return nil }
      value = value &* radix &+ digit
      index += 1
    }
    return negative ? -Int64(bitPattern: value) : Int64(bitPattern: value)
  }
}
