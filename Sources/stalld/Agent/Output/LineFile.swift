import CLinux
import DescriptorIO
import Glibc
import StallCapture

/// A file of whole lines that is appended to: one write(2) for all that wait, and never half a line left.
///
/// A line that the disk took in part is taken back. Half a line at the end of a file that is opened (the agent was killed during a write)
/// is cut off: it was never acknowledged, so the service sends it again. NUL bytes there, which a power cut can leave, are cut off, too.
/// Any other text that is not the beginning of a JSON object is not ours, and is ended with a newline instead.
final class LineFile {
  /// No line is as long as this; what has no newline in so many bytes is not cut off.
  private static let longestHalf = 1 << 20

  private let descriptor: Int32
  private let output: LineDescriptor
  let identity: FileIdentity
  private(set) var size: Int
  /// When the first line of an empty file was appended; of an opened file, when it was made, or last changed if the file system does not
  /// record that.
  ///
  /// Seconds since 1970.
  private(set) var birth: Int
  /// A part of a line could not be taken back yet.
  private var isTorn = false
  // Lines that are written together; kept, for there are more.
  private var buffer: [UInt8] = []

  struct Failure: Error {
    /// An errno value.
    var code: Int32
    var reason: String
    /// Only a new process can write there.
    var needsRestart: Bool

    init(_ code: Int32, _ reason: String? = nil, needsRestart: Bool = false) {
      self.code = code
      self.reason = reason ?? String(cString: strerror(code))
      self.needsRestart = needsRestart
    }
  }

  /// Opens a file, or makes it.
  ///
  /// Only a regular file, and not by a symbolic link.
  init(path: String, mode: mode_t) throws(Failure) {
    let flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
    var descriptor = clinux_open(path, flags, 0)
    if descriptor < 0 && errno == ENOENT {
      descriptor = clinux_open(path, flags | O_CREAT | O_EXCL, UInt32(mode))
      if descriptor >= 0 {
        // Independent of the umask.
        fchmod(descriptor, mode)
      } else if errno == EEXIST {
        descriptor = clinux_open(path, flags, 0)
      }
    }
    guard descriptor >= 0 else {
      throw errno == ELOOP ? Failure(ELOOP, "a symbolic link, not a regular file") : Failure(errno)
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
      let output = LineDescriptor(owning: descriptor)
    else {
      Glibc.close(descriptor)
      throw Failure(EINVAL, "not a regular file")
    }
    self.descriptor = descriptor
    self.output = output
    identity = FileIdentity(status)
    size = Int(status.st_size)
    let born = clinux_birth_time(descriptor)
    birth = born > 0 ? Int(born) : status.st_mtim.tv_sec
    if !mend() { isTorn = true }
  }

  /// Appends lines by one write(2), each in whole or not at all; how many, at least one.
  func append(_ lines: ArraySlice<ReportLine>) throws(Failure) -> Int {
    if isTorn && !mend() { throw Failure(errno) }
    if size == 0 { birth = time(nil) }
    let single = lines.count == 1 ? lines.first?.bytes : nil
    if single == nil {
      buffer.removeAll(keepingCapacity: true)
      for line in lines { buffer += line.bytes }
    }
    let (written, outcome) = (single ?? buffer).withUnsafeBytes { output.take($0) }
    guard case .failed(let code) = outcome else {
      size += written
      return lines.count
    }
    var (count, whole) = (0, 0)
    for line in lines {
      guard whole + line.bytes.count <= written else { break }
      whole += line.bytes.count
      count += 1
    }
    size += whole
    if written > whole { isTorn = !mend() }
    if count == 0 { throw Failure(code) }
    return count
  }

  /// Asks how long the file is: another program may have truncated it, or appended to it.
  func refreshSize() {
    var status = stat()
    if fstat(descriptor, &status) == 0 { size = Int(status.st_size) }
  }

  /// Whether what is written here can be found: by the path, or by another name.
  func hasName(_ path: String) -> Bool {
    var status = stat()
    if fstat(descriptor, &status) == 0, status.st_nlink > 0 { return true }
    // There are file systems that do not count names.
    return FileIdentity(path: path) == identity
  }

  /// Brings all to the disk; an errno value, or 0.
  func synchronise() -> Int32 { fdatasync(descriptor) == 0 ? 0 : errno }

  /// Takes the last lines back, which end at ``size``.
  func cut(to shorter: Int) {
    let isCut = LineDescriptor.removeLast(size - shorter, from: descriptor)
    size = shorter
    if !isCut { isTorn = !mend() }
  }

  /// Leaves the file with a newline at its end, or empty; false if that is not possible now.
  private func mend() -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return false }
    size = Int(status.st_size)
    guard size > 0, byte(at: size - 1) != UInt8(ascii: "\n") else {
      isTorn = false
      return true
    }
    let start = startOfLastLine()
    if let start, let first = byte(at: start), first == UInt8(ascii: "{") || first == 0 {
      guard ftruncate(descriptor, off_t(start)) == 0 else { return false }
      size = start
    } else {
      guard "\n".withCString({ write(descriptor, $0, 1) }) == 1 else { return false }
      size += 1
    }
    isTorn = false
    return true
  }

  private func byte(at offset: Int) -> UInt8? {
    var byte: UInt8 = 0
    return pread(descriptor, &byte, 1, off_t(offset)) == 1 ? byte : nil
  }

  /// What is behind the last newline; nil if there is none in the last MiB of a longer file.
  private func startOfLastLine() -> Int? {
    let lowest = max(0, size - Self.longestHalf)
    var end = size
    var chunk = [UInt8](repeating: 0, count: 16384)
    while end > lowest {
      let start = max(lowest, end - chunk.count)
      let count = pread(descriptor, &chunk, end - start, off_t(start))
      guard count == end - start else { return nil }
      if let newline = chunk[..<count].lastIndex(of: UInt8(ascii: "\n")) { return start + newline + 1 }
      end = start
    }
    return lowest == 0 ? 0 : nil
  }
}
