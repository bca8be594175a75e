import CLinux
import DescriptorIO
import Glibc

/// Makes `NAME.gz` of a file.
enum GzipFile {
  struct Failure: Error {
    /// Nil: it was cancelled.
    var reason: String?

    init(_ code: Int32) { reason = String(cString: strerror(code)) }
    init(reason: String?) { self.reason = reason }
  }

  /// Puts the compressed file in the place of the plain one.
  ///
  /// At each moment, one of them is complete and, if the disk is correct, there after a power cut.
  static func compress(_ path: String, isCancelled: () -> Bool) throws(Failure) {
    let source = clinux_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
    guard source >= 0 else { throw Failure(errno) }
    defer { close(source) }
    var status = stat()
    guard fstat(source, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw Failure(reason: "not a regular file")
    }
    // Not by `DirectoryFiles.replace`, which has the whole content in memory: this is packed in pieces, and can be cancelled.
    let unfinished = path + ".gz.part"
    unlink(unfinished)
    let target = clinux_open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard target >= 0 else { throw Failure(errno) }
    do throws(Failure) {
      defer { close(target) }
      try deflate(source, to: target, isCancelled)
      fchmod(target, status.st_mode & 0o777)
      var times = [status.st_atim, status.st_mtim]
      futimens(target, &times)
      guard fsync(target) == 0, rename(unfinished, path + ".gz") == 0 else { throw Failure(errno) }
    } catch {
      unlink(unfinished)
      throw error
    }
    LineFile.Directory.synchronise(of: path)
    unlink(path)
  }

  private static func deflate(_ source: Int32, to target: Int32, _ isCancelled: () -> Bool) throws(Failure) {
    guard let stream = GzipStream() else { throw Failure(ENOMEM) }
    let input = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 65536)
    defer { input.deallocate() }
    var count: Int
    repeat {
      if isCancelled() { throw Failure(reason: nil) }
      repeat { count = read(source, input.baseAddress, input.count) } while count < 0 && errno == EINTR
      guard count >= 0 else { throw Failure(errno) }
      let piece = UnsafeMutableBufferPointer(rebasing: input[..<count])
      try stream.compress(piece, isLast: count == 0) { output throws(Failure) in
        let code = FileBytes.write(output, to: target)
        if code != 0 { throw Failure(code) }
      }
    } while count > 0
  }
}
