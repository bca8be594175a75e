import Glibc

extension UnsafeMutablePointer<dirent> {
  /// The name of what readdir(3) has found.
  var name: String {
    withUnsafePointer(to: &pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
  }
}
