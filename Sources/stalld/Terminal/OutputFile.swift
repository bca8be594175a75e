import ArgumentParser
import CLinux
import DescriptorIO
import Glibc

/// A file that a result goes to; `-` is standard output.
///
/// It replaces an empty file or an earlier page, and nothing else: never an input.
struct OutputFile {
  /// Why nothing was written, and what to do.
  struct Failure: Error, CustomStringConvertible {
    var description: String
    /// Nobody reads standard output any more, which is no failure of the command.
    var isEndOfReader = false
  }

  /// What a file is, by its first bytes.
  private enum Content {
    case page, reportLines, other(String)

    /// The first that matches: how the file begins, a text in its first bytes, and what it is.
    private static let known: [(beginning: [UInt8], text: String, content: Content)] = [
      (Array("<!DOCTYPE html>".utf8), ReportPage.mark, .page),
      (Array("{".utf8), #""name":"stall."#, .reportLines),
      (Array("{".utf8), "", .other("a JSON file")),
      (Array("<".utf8), "", .other("an HTML or XML file")),
      ([0x1f, 0x8b], "", .other("a gzip file")),
      ([0x7f] + Array("ELF".utf8), "", .other("a program")),
    ]

    init(_ bytes: [UInt8]) {
      self =
        Self.known.first { known in
          bytes.starts(with: known.beginning) && (known.text.isEmpty || bytes.firstRange(of: known.text.utf8) != nil)
        }?.content ?? .other("a file of other text or data")
    }
  }

  let path: String
  let inputs: InputFiles

  /// Throws if it must not be written: a command checks that before it reads its inputs.
  func check() throws(Failure) {
    guard let status = status else {
      // No name leads to a file, so there is none to replace.
      if errno == ELOOP { throw failure(ELOOP) }
      return
    }
    if let input = inputs.name(of: FileIdentity(status)) {
      throw Failure(
        description: isStandard
          ? "standard output goes to an input, \(input); let it go to another file"
          : "\(path): is an input (\(input)); give the page a name of its own, such as --html report.html \(path)")
    }
    if !isStandard, status.st_mode & S_IFMT == S_IFBLK {
      throw Failure(description: "\(path): is a block device, whose data the page would replace; give a file")
    }
    guard !isStandard, Self.isRegular(status), status.st_size > 0 else { return }
    switch Content(try beginning()) {
    case .page: break
    case .reportLines:
      throw Failure(
        description:
          "\(path): is a file of report lines, which the page would replace; the name of the page comes first, "
          + "such as --html report.html \(path)")
    case .other(let what):
      throw Failure(
        description: "\(path): is \(what), and no page of stalld report; delete it, or give another file")
    }
  }

  /// Ends a subcommand that would write to its own input.
  static func checkStandardOutput(of command: String, inputs: InputFiles) throws(ExitCode) {
    do throws(Failure) {
      try OutputFile(path: "-", inputs: inputs).check()
    } catch {
      StandardError.say(command, "\(error)")
      throw ExitCode(1)
    }
  }

  /// Writes all of it: beside the file, which then gets its name, or directly to what is no regular file.
  func write(_ bytes: [UInt8]) throws(Failure) {
    try check()
    if isStandard { return try write(bytes, to: STDOUT_FILENO) }
    if let status, !Self.isRegular(status) {
      let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
      guard descriptor >= 0 else { throw failure(errno) }
      defer { close(descriptor) }
      return try write(bytes, to: descriptor)
    }
    try replace(with: bytes)
  }

  // MARK: Kinds of files

  /// Of the file that the path leads to; nil if there is none.
  private var status: stat? {
    var status = stat()
    return (path == "-" ? fstat(STDOUT_FILENO, &status) : stat(path, &status)) == 0 ? status : nil
  }

  /// Also by a path such as /dev/stdout.
  private var isStandard: Bool {
    path == "-" || status.map { FileIdentity($0) == FileIdentity(STDOUT_FILENO) } ?? false
  }

  private static func isRegular(_ status: stat) -> Bool { status.st_mode & S_IFMT == S_IFREG }

  private func beginning() throws(Failure) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw failure(errno) }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = pread(descriptor, &bytes, bytes.count, 0)
    guard count >= 0 else { throw failure(errno) }
    return Array(bytes[..<count])
  }

  // MARK: Writing

  private func write(_ bytes: [UInt8], to descriptor: Int32) throws(Failure) {
    do throws(SystemError) {
      try StandardOutput.write(bytes, to: descriptor)
    } catch {
      throw failure(error.code)
    }
  }

  private func replace(with bytes: [UInt8]) throws(Failure) {
    let place = PathParts(Self.target(of: path))
    guard !place.name.isEmpty else { throw failure(path.isEmpty ? ENOENT : EISDIR) }
    let directory = clinux_open_directory(-1, place.directory)
    guard directory >= 0 else { throw failure(errno, in: place.directory) }
    defer { close(directory) }
    let before = status
    if before != nil, faccessat(directory, place.name, W_OK, AT_EACCESS) != 0 { throw failure(errno) }
    // No name of a user's own file.
    let unfinished = ".stalld-" + String(UInt64.random(in: 0 ... .max), radix: 36)
    // The process would end and leave that name. Dispatch's threads block these signals anyway.
    let code = ThreadSignals.blocking([SIGHUP, SIGINT, SIGTERM]) {
      DirectoryFiles.replace(
        place.name, in: directory, unfinished: unfinished, mode: before.map { $0.st_mode & 0o7777 } ?? 0o644,
        with: bytes, ignoresUmask: before != nil)
    }
    guard code == 0 else { throw failure(code, in: place.directory) }
    // Only root may give a file to another user.
    if let before, fchownat(directory, place.name, before.st_uid, before.st_gid, 0) != 0 {
      _ = fchownat(directory, place.name, uid_t.max, before.st_gid, 0)
    }
  }

  /// The path that symbolic links lead to; nothing need be there.
  private static func target(of path: String) -> String {
    var path = path
    for _ in 0..<40 {
      var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
      let count = readlink(path, &bytes, bytes.count)
      guard count > 0 else { return path }
      let next = String(decoding: bytes[..<count].lazy.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      path = next.hasPrefix("/") ? next : PathParts(path).directory + "/" + next
    }
    return path
  }

  private func failure(_ code: Int32, in directory: String? = nil) -> Failure {
    let name = isStandard ? "standard output" : path
    let advice = isStandard ? "" : InputAdvice.output(code, path, in: directory)
    return Failure(
      description: "\(name): \(SystemError(code: code))\(advice)", isEndOfReader: isStandard && code == EPIPE)
  }
}
