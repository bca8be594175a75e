import Glibc

/// What a system call answered.
struct SystemError: Error, CustomStringConvertible {
  var code: Int32
  var description: String { String(cString: strerror(code)) }
}
