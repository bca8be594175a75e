import CLinux
import CZlib
import DescriptorIO
import Glibc

/// Puts `NAME.gz` in the place of a file.
///
/// The file is removed only when an archive that the agent made has been synchronised and read back, and has the same content.
enum GzipFile {
  struct Failure: Error {
    /// Nil: it was cancelled, or there is nothing to compress.
    var reason: String?
    var isDiskFull = false

    init(_ code: Int32) {
      reason = String(cString: strerror(code))
      isDiskFull = code == ENOSPC || code == EDQUOT
    }
    init(reason: String?) { self.reason = reason }
  }

  /// What gzip(1) would write the original file's name for: an archive without it is another program's.
  private static let maker = "stalld"
  private static let pieceSize = 1 << 16

  /// Puts the compressed file in the place of the plain one.
  ///
  /// At each moment, one of them is complete and, if the disk is correct, there after a power cut.
  static func compress(_ path: String, isCancelled: () -> Bool) throws(Failure) {
    let source = clinux_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
    // Another program may have compressed it, and removed it.
    guard source >= 0 else { throw errno == ENOENT ? Failure(reason: nil) : Failure(errno) }
    defer { close(source) }
    var status = stat()
    guard fstat(source, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw Failure(reason: "not a regular file")
    }
    // A name that the output's thread has reserved, and is about to rename its file to.
    guard status.st_size > 0 else { throw Failure(reason: nil) }
    let archive = path + RotatedFile.Form.compressed.rawValue
    if FileIdentity(path: archive) == nil {
      try make(archive, of: source, status, at: RotatedFile.unfinished(of: path), isCancelled)
    } else {
      // The agent's own, if it was killed before it removed the plain file.
      try check(archive, has: source, isCancelled)
    }
    let code = OutputDirectory.synchronise(of: path)
    guard code == 0 else { throw Failure(code) }
    // Not one that another process has put there meanwhile, or appended to.
    let size = status.st_size
    guard fstat(source, &status) == 0, status.st_size == size, FileIdentity(path: path) == FileIdentity(status) else {
      throw Failure(reason: "another process has changed it")
    }
    unlink(path)
  }

  /// Whether the agent made an archive, which may be incomplete; false for anything but a regular file.
  static func isOwn(_ archive: String) -> Bool {
    guard let descriptor = openOwn(archive) else { return false }
    close(descriptor)
    return true
  }

  private static func openOwn(_ archive: String) -> Int32? {
    let descriptor = clinux_open(archive, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
    guard descriptor >= 0 else { return nil }
    var status = stat()
    // RFC 1952: a header of ten bytes whose fourth one says that only a name follows.
    var header = [UInt8](repeating: 0, count: 10 + maker.utf8.count + 1)
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
      pread(descriptor, &header, header.count, 0) == header.count, header.starts(with: [0x1f, 0x8b, 8, 8]),
      header.dropFirst(10).elementsEqual(maker.utf8 + [0])
    else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  private static func make(
    _ archive: String, of source: Int32, _ status: stat, at unfinished: String, _ isCancelled: () -> Bool
  ) throws(Failure) {
    // What a killed agent has left.
    unlink(unfinished)
    let target = clinux_open(unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard target >= 0 else { throw Failure(errno) }
    defer {
      close(target)
      unlink(unfinished)
    }
    try deflate(source, to: target, isCancelled)
    fchmod(target, status.st_mode & 0o777)
    var times = [status.st_atim, status.st_mtim]
    futimens(target, &times)
    guard fsync(target) == 0 else { throw Failure(errno) }
    // From the disk, not from memory.
    posix_fadvise(target, 0, 0, POSIX_FADV_DONTNEED)
    guard try isArchive(target, of: source, isCancelled) else {
      throw Failure(reason: "the archive has other content when it is read back; check the disk, and the memory")
    }
    // Not by rename(2), which replaces what has the name. Of this very file, whatever its unfinished name leads to by now.
    guard linkat(AT_FDCWD, "/proc/self/fd/\(target)", AT_FDCWD, archive, AT_SYMLINK_FOLLOW) == 0 else {
      switch errno {
      case EEXIST: throw foreign(archive)
      // An agent that starts has removed it, as one that a killed agent has left.
      case ENOENT: throw Failure(reason: nil)
      case EPERM, EOPNOTSUPP: throw Failure(reason: "the file system has no hard links; set compress: none")
      default: throw Failure(errno)
      }
    }
  }

  private static func check(_ archive: String, has source: Int32, _ isCancelled: () -> Bool) throws(Failure) {
    guard let descriptor = openOwn(archive) else { throw foreign(archive) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw Failure(errno) }
    guard try isArchive(descriptor, of: source, isCancelled) else {
      throw Failure(reason: "\(archive) is incomplete or has other content; move it away")
    }
  }

  private static func foreign(_ archive: String) -> Failure {
    Failure(reason: "\(archive) exists, and this agent did not make it; move it away")
  }

  private static func deflate(_ source: Int32, to target: Int32, _ isCancelled: () -> Bool) throws(Failure) {
    guard let stream = GzipStream(name: maker) else { throw Failure(ENOMEM) }
    let input = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: pieceSize)
    defer { input.deallocate() }
    var count: Int
    repeat {
      if isCancelled() { throw Failure(reason: nil) }
      count = try fill(input, from: source)
      let piece = UnsafeMutableBufferPointer(rebasing: input[..<count])
      try stream.compress(piece, isLast: count == 0) { output throws(Failure) in
        let code = FileBytes.write(output, to: target)
        if code != 0 { throw Failure(code) }
      }
    } while count > 0
  }

  /// Whether an archive is complete, and has exactly the content of a file.
  private static func isArchive(
    _ archive: Int32, of source: Int32, _ isCancelled: () -> Bool
  ) throws(Failure) -> Bool {
    guard lseek(archive, 0, SEEK_SET) == 0, lseek(source, 0, SEEK_SET) == 0 else { throw Failure(errno) }
    let copy = fcntl(archive, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { throw Failure(errno) }
    guard let file = gzdopen(copy, "rb") else {
      close(copy)
      throw Failure(ENOMEM)
    }
    let unpacked = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: pieceSize)
    let plain = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: pieceSize)
    var isOpen = true
    defer {
      if isOpen { gzclose(file) }
      unpacked.deallocate()
      plain.deallocate()
    }
    while true {
      if isCancelled() { throw Failure(reason: nil) }
      let count = Int(gzread(file, unpacked.baseAddress, UInt32(pieceSize)))
      guard try fill(plain, from: source) == count, memcmp(unpacked.baseAddress!, plain.baseAddress!, count) == 0 else {
        return false
      }
      if count == 0 { break }
    }
    isOpen = false
    // An archive that ends early, even within its checksum, is an error only here.
    return gzclose(file) == Z_OK
  }

  /// Reads until the buffer is full or the file ends.
  private static func fill(_ buffer: UnsafeMutableBufferPointer<UInt8>, from source: Int32) throws(Failure) -> Int {
    var filled = 0
    while filled < buffer.count {
      let count = read(source, buffer.baseAddress! + filled, buffer.count - filled)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw Failure(errno) }
      if count == 0 { break }
      filled += count
    }
    return filled
  }
}
