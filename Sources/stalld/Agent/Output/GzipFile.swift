import CLinux
import CZlib
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
    let source = clinux_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0)
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
    var stream = z_stream()
    // 15 bits of window, and a gzip header (+ 16).
    guard
      deflateInit2_(
        &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
        Int32(MemoryLayout<z_stream>.size)) == Z_OK
    else { throw Failure(ENOMEM) }
    defer { deflateEnd(&stream) }
    let size = 65536
    let input = UnsafeMutablePointer<UInt8>.allocate(capacity: 2 * size)
    defer { input.deallocate() }
    let output = input + size
    var count: Int
    repeat {
      if isCancelled() { throw Failure(reason: nil) }
      repeat { count = read(source, input, size) } while count < 0 && errno == EINTR
      guard count >= 0 else { throw Failure(errno) }
      stream.next_in = input
      stream.avail_in = UInt32(count)
      repeat {
        stream.next_out = output
        stream.avail_out = UInt32(size)
        _ = CZlib.deflate(&stream, count == 0 ? Z_FINISH : Z_NO_FLUSH)
        let code = FileBytes.write(
          UnsafeRawBufferPointer(start: output, count: size - Int(stream.avail_out)), to: target)
        if code != 0 { throw Failure(code) }
      } while stream.avail_out == 0
    } while count > 0
  }
}
