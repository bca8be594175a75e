import PlatformLibc

/// A failed operation of a loop, a source or a permanent thread, with the system's error number.
public struct LoopError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What the loop was about to do, in words: "watch descriptor 7".
  public let operation: String
  /// The descriptor of the operation; -1 if it has none.
  public let descriptor: Int32
  /// The system's error number.
  public let errorNumber: Int32

  init(_ operation: String, descriptor: Int32 = -1, errorNumber: Int32 = errno) {
    self.operation = operation
    self.descriptor = descriptor
    self.errorNumber = errorNumber
  }

  /// One sentence with the operation, the meaning of the error and its number.
  public var description: String {
    var buffer = [CChar](repeating: 0, count: 128)
    // glibc's strerror_r is thread-safe; Swift imports the POSIX variant, which fills the buffer.
    _ = strerror_r(errorNumber, &buffer, buffer.count)
    let words = String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    return "cannot \(operation): \(words) (errno \(errorNumber))"
  }
}
