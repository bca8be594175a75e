import DescriptorIO
import Glibc
import Synchronization

/// The files of report lines that a command reads, as they were when it began; none of them may be what it writes.
///
/// Regular files are opened at once: whatever happens to their names later, what they had is read. What cannot be read is one of
/// ``failures``, and never missing in silence.
struct InputFiles: Sendable {
  /// Why a file could not be read, or not to its end.
  struct Failure: Sendable {
    var file: String
    var reason: String
  }

  /// A descriptor that is closed with its last owner, unless it was taken.
  private final class Descriptor: Sendable {
    private let number: Atomic<Int32>

    init(_ number: Int32) { self.number = Atomic(number) }

    deinit { close(take()) }

    func take() -> Int32 { number.exchange(-1, ordering: .relaxed) }
  }

  /// A file as it was when the command began.
  private struct File {
    var name: String
    var identity: FileIdentity
    /// Its bytes; nil if it is not regular.
    var size: Int?
    /// Nil if it is not regular, or if descriptors are short.
    var descriptor: Descriptor?
  }

  private(set) var failures: [Failure] = []
  /// Files that could be opened.
  private(set) var opened = 0
  /// In the order in which they are read, each once, whatever names it has.
  private var files: [File] = []
  private var next = 0
  private var known: Set<FileIdentity> = []

  /// Names of files, or patterns as of glob(7); `-`, which is also the default, is standard input.
  init(_ arguments: [String]) {
    for argument in arguments.isEmpty ? ["-"] : arguments {
      if let found = Self.expand(argument) {
        for name in found { list(name) }
      } else {
        fail(argument, "no file matches this pattern; check it with ls")
      }
    }
  }

  var hasStandardInput: Bool { files.contains { $0.name == "-" } }

  /// What a regular file is called if the command reads it.
  func name(of file: FileIdentity) -> String? {
    files.first { $0.identity == file && $0.size != nil }.map { $0.name == "-" ? "standard input" : $0.name }
  }

  /// Opens the next file that can be opened; nil after the last one.
  ///
  /// The caller closes it.
  mutating func open() -> Input? {
    while next < files.count {
      let file = files[next]
      next += 1
      if let descriptor = open(file) {
        opened += 1
        return Input(descriptor: descriptor, name: file.name, size: file.size)
      }
    }
    return nil
  }

  /// Notes that a file could not be read, or not to its end.
  mutating func fail(_ file: String, _ reason: String) {
    failures.append(Failure(file: file == "-" ? "standard input" : file, reason: reason))
  }

  // MARK: One file

  /// Adds a file; in place of one that is missing its archive, as the agent may just have compressed it.
  private mutating func list(_ name: String) {
    if name != "-" {
      guard !add(name), !(errno == ENOENT && add(name + RotatedFile.Form.compressed.rawValue)) else { return }
    } else if add(name) {
      return
    }
    fail(name, InputAdvice.reason(errno))
  }

  /// False, with errno, if the file cannot be read.
  private mutating func add(_ name: String) -> Bool {
    var status = stat()
    guard (name == "-" ? fstat(STDIN_FILENO, &status) : stat(name, &status)) == 0 else { return false }
    var descriptor: Descriptor?
    if name != "-", status.st_mode & S_IFMT == S_IFREG {
      // What has another kind by now is not waited for.
      let number = Glibc.open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
      guard number >= 0 || errno == EMFILE || errno == ENFILE else { return false }
      if number >= 0 {
        let held = Descriptor(number)
        fstat(number, &status)
        // The command needs some for its output and for debug information.
        if !DescriptorLimit.current.isReserved(number) { descriptor = held }
      }
    }
    let isRegular = status.st_mode & S_IFMT == S_IFREG
    if status.st_mode & S_IFMT == S_IFDIR {
      fail(name, InputAdvice.reason(EISDIR))
    } else if isRegular, status.st_size == 0, name.hasSuffix(".gz") {
      fail(name, "is empty, which no gzip file is")
    } else if known.insert(FileIdentity(status)).inserted {
      files.append(
        File(
          name: name, identity: FileIdentity(status), size: isRegular ? Int(status.st_size) : nil,
          descriptor: isRegular ? descriptor : nil))
    }
    return true
  }

  private mutating func open(_ file: File) -> Int32? {
    if let descriptor = file.descriptor { return descriptor.take() }
    let descriptor = file.name == "-" ? dup(STDIN_FILENO) : Glibc.open(file.name, O_RDONLY | O_CLOEXEC)
    if descriptor >= 0, FileIdentity(descriptor) == file.identity { return descriptor }
    let isOther = descriptor >= 0 || errno == ENOENT
    let reason = isOther ? "was renamed, replaced or removed while the command ran" : InputAdvice.reason(errno)
    fail(file.name, reason + (isOther && file.size != nil ? "; raise ulimit -n, and run the command again" : ""))
    if descriptor >= 0 { close(descriptor) }
    return nil
  }

  /// The files that a pattern matches, in the order of their names; nil without any.
  private static func expand(_ name: String) -> [String]? {
    guard name != "-", access(name, F_OK) != 0, name.contains(where: { "*?[".contains($0) }) else { return [name] }
    var found = glob_t()
    defer { globfree(&found) }
    guard glob(name, 0, nil, &found) == 0 else { return nil }
    return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
  }
}

extension InputFiles {
  /// A file that is open for reading.
  struct Input {
    /// Why it cannot be read to its end.
    struct Fault: Error, CustomStringConvertible {
      var description: String

      /// Where a report may have been.
      static let nulBytes = Fault(description: "ends with NUL bytes in place of lines")
    }

    var descriptor: Int32
    var name: String
    /// The bytes that a regular file had when the command began.
    var size: Int?

    /// Reads the next bytes; 0 at the end.
    func read(into bytes: UnsafeMutableRawBufferPointer) throws(Fault) -> Int {
      var count: Int
      repeat { count = Glibc.read(descriptor, bytes.baseAddress, bytes.count) } while count < 0 && errno == EINTR
      guard count >= 0 else { throw Fault(description: InputAdvice.reason(errno)) }
      if count == 0, let size, lseek(descriptor, 0, SEEK_CUR) < size {
        throw Fault(description: "was truncated while the command ran")
      }
      return count
    }
  }
}
