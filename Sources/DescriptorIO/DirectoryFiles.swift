import CLinux
import PlatformLibc

extension UnsafeMutablePointer<dirent> {
  /// The name of what readdir(3) has found.
  package var name: String {
    withUnsafePointer(to: &pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
  }
}

/// The files of a directory, by its descriptor: the directory that was opened, whatever its path leads to by now.
package enum DirectoryFiles {
  /// Calls `body` with the names of all entries, in no order; false, with errno, if the directory cannot be read.
  ///
  /// `body` returns whether it wants more.
  package static func forEachName(in directory: Int32, _ body: (String) -> Bool) -> Bool {
    let own = clinux_open_at(directory, ".", O_RDONLY | O_DIRECTORY, 0)
    guard own >= 0 else { return false }
    guard let entries = fdopendir(own) else {
      let code = errno
      close(own)
      errno = code
      return false
    }
    defer { closedir(entries) }
    while let entry = readdir(entries) { if !body(entry.name) { break } }
    return true
  }

  /// Writes a file and replaces the one that has the name; returns 0, or an errno value if that failed.
  ///
  /// Readers always find a whole file. The call may wait for the disk, but does not call fsync(2). `unfinished` is the file's name until
  /// it is whole. `attribute` is kept beside its content where the file system can do that. The file has `mode` less the process's umask,
  /// unless `ignoresUmask`.
  package static func replace(
    _ name: String, in directory: Int32, unfinished: String, mode: UInt32 = 0o640, with bytes: [UInt8],
    attribute: (name: String, text: String)? = nil, ignoresUmask: Bool = false
  ) -> Int32 {
    // What a process that was killed has left of this same file.
    unlinkat(directory, unfinished, 0)
    let file = clinux_open_at(directory, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
    guard file >= 0 else { return errno }
    if ignoresUmask { fchmod(file, mode) }
    var code = bytes.withUnsafeBytes { FileBytes.write($0, to: file) }
    if let attribute { _ = clinux_set_attribute(file, attribute.name, attribute.text) }
    if close(file) != 0, code == 0 { code = errno }
    if code == 0, renameat(directory, unfinished, directory, name) != 0 { code = errno }
    if code != 0 { unlinkat(directory, unfinished, 0) }
    return code
  }

  /// Reads what ``replace(_:in:unfinished:mode:with:attribute:ignoresUmask:)`` has kept beside a file's content; nil if there is nothing.
  package static func attribute(_ attribute: String, of name: String, in directory: Int32) -> String? {
    let file = clinux_open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
    guard file >= 0 else { return nil }
    defer { close(file) }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 1024) { text in
      clinux_attribute(file, attribute, text.baseAddress, text.count) >= 0 ? String(cString: text.baseAddress!) : nil
    }
  }

  /// Reads a regular file; empty if there is none, or if it is longer than the limit.
  package static func read(_ name: String, in directory: Int32, limit: Int) -> [UInt8] {
    let file = clinux_open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
    guard file >= 0 else { return [] }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    let count = PlatformLibc.read(file, &bytes, bytes.count)
    return Array(bytes[..<max(0, count)])
  }
}
