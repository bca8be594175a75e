import CLinux
import DescriptorIO
import Glibc
import LoopEngine

/// Follows files by their names, as `tail -F` does: files that are renamed and created again, truncated, or come later.
///
/// What is at a path is checked when inotify reports a change, and once a second: inotify does not report the changes of
/// other machines, mounts, and changes of directories above the file's.
/// A file is read once, whatever names lead to it.
final class FileFollower: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  private final class Name {
    let path: String
    var current: FollowedFile?
    /// What was there before, and may still be written to or come back, until it is deleted.
    var previous: FollowedFile?
    /// Where changes of the name are seen: the path's directory and, for a link, that of the file.
    var directories: Set<String>
    /// A message says why nothing can be read at the path.
    var isInaccessible = false
    var isDueForCheck = false
    var isWaiting = false
    var hasReachedEnd = false

    init(_ path: String) {
      self.path = path
      directories = [PathParts(path).directory]
    }

    func follow(_ file: FollowedFile) {
      if current !== file { (previous, current) = (current, file) }
      guard let real = realpath(path, nil) else { return }
      directories = [PathParts(path).directory, PathParts(String(cString: real)).directory]
      free(real)
    }
  }

  private static let directoryEvents = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO

  private let loop: Loop
  private let takeLine: ([UInt8]?, String) -> Void
  private let didReachEnd: (String) -> Void
  private var names: [Name] = []
  /// Names with news, in their order.
  private var waiting: [Name] = []
  private var files: [FileIdentity: FollowedFile] = [:]
  private var directories: [String: FileWatches.Number] = [:]
  private var hasNotedFailure = false
  private lazy var watches = FileWatches(on: loop) { [weak self] in self?.noteChanges($0) }
  private lazy var timer = loop.perform(every: .seconds(1), name: "check of followed files") { [weak self] _ in
    self?.checkAll()
  }

  /// Follows nothing yet.
  ///
  /// - Parameters:
  ///   - loop: The calling thread's.
  ///   - takeLine: Called with each line, without its newline, and its file; with nil for a line that is too long.
  ///   - didReachEnd: Called once for each path, when all that was there has been read.
  init(
    on loop: Loop, takeLine: @escaping ([UInt8]?, String) -> Void, didReachEnd: @escaping (String) -> Void
  ) {
    self.loop = loop
    self.takeLine = takeLine
    self.didReachEnd = didReachEnd
  }

  /// Begins with the last lines of a file, or waits for the file.
  ///
  /// - Throws: Why there will be no lines: it is a directory, or compressed.
  func follow(_ path: String, lines: Int) throws {
    guard !names.contains(where: { $0.path == path }) else { return }
    let name = Name(path)
    watchDirectories(of: [name])
    do {
      name.follow(try file(at: path, last: lines))
      watchDirectories(of: [name])
    } catch let error as SystemError where error.code != EISDIR {
      say("\(path): \(InputAdvice.reason(error)). Waiting for the file; Ctrl-C ends the command")
      name.isInaccessible = true
    }
    if name.current?.isEmpty == true {
      say("\(path) is empty; reports appear here as they are written. Ctrl-C ends the command")
    }
    names.append(name)
    serve(name)
    noteFailureOfWatches()
    _ = timer
  }

  // MARK: What has changed

  private func noteChanges(_ changed: Set<FileWatches.Number>) {
    for name in names {
      let files = [name.current, name.previous].compactMap { $0?.watch }
      let directories = name.directories.compactMap { self.directories[$0] }
      if changed.contains(FileWatches.overflow) || !changed.isDisjoint(with: files + directories) { serve(name) }
    }
  }

  private func checkAll() {
    watchDirectories(of: names)
    for name in names {
      name.isDueForCheck = true
      serve(name)
    }
    noteFailureOfWatches()
  }

  /// Watches the directories that are at the paths now.
  private func watchDirectories(of names: [Name]) {
    for path in Set(names.flatMap(\.directories)) {
      let number = watches.add(path, for: Self.directoryEvents)
      if let old = directories.updateValue(number ?? FileWatches.overflow, forKey: path), old != number {
        watches.remove(old)
      }
    }
  }

  private func noteFailureOfWatches() {
    guard let failure = watches.failure, !hasNotedFailure else { return }
    hasNotedFailure = true
    say("changes are seen once a second, because inotify cannot be used: \(failure)")
  }

  // MARK: Reading

  /// Reads on under a name; one piece in each turn, so that the loop can be stopped between them.
  private func serve(_ name: Name) {
    guard !name.isWaiting else { return }
    name.isWaiting = true
    waiting.append(name)
    if waiting.count == 1 { readInNextTurn() }
  }

  private func readInNextTurn() {
    loop.perform(name: "followed file") { [self] in
      let name = waiting[0]
      let hasMore = readPiece(name)
      waiting.removeFirst()
      if hasMore { waiting.append(name) } else { name.isWaiting = false }
      if !waiting.isEmpty { readInNextTurn() }
    }
  }

  /// False if there is nothing more.
  private func readPiece(_ name: Name) -> Bool {
    // The writer may have written to the old file until now.
    for file in [name.previous, name.current].compactMap({ $0 }) {
      switch file.readPiece({ takeLine($0, file.path) }) {
      case .more: return true
      case .end: continue
      case .truncated:
        endLine(of: file)
        say("\(file.path): file truncated; following it from its beginning")
        return true
      case .failed(let error):
        if !file.hasFailed { say("\(file.path): \(error)") }
        file.hasFailed = true
      }
    }
    if followPath(of: name) { return true }
    if !name.hasReachedEnd, name.current != nil {
      name.hasReachedEnd = true
      didReachEnd(name.path)
    }
    return false
  }

  /// Follows what is at a path now; false if that is what is followed already, or nothing.
  private func followPath(of name: Name) -> Bool {
    let isCheck = name.isDueForCheck
    name.isDueForCheck = false
    if isCheck, let previous = name.previous, previous.isDeleted {
      name.previous = nil
      closeUnlessFollowed(previous)
    }
    do {
      let isOther = try !isCurrent(name)
      if isOther {
        let former = name.previous
        name.follow(try file(at: name.path))
        watchDirectories(of: [name])
        former.map(closeUnlessFollowed)
      }
      if name.isInaccessible {
        say("\(name.path) \(isOther ? "has appeared; following the new file" : "is accessible again")")
      } else if isOther {
        say("\(name.path) has been replaced; following the new file")
      }
      name.isInaccessible = false
      return isOther
    } catch {
      // Not between the two steps of a rotation.
      if isCheck, !name.isInaccessible {
        say("\(name.path) has become inaccessible: \(error)")
        name.isInaccessible = true
      }
      return false
    }
  }

  private func isCurrent(_ name: Name) throws -> Bool {
    var facts = stat()
    guard stat(name.path, &facts) == 0 else { throw SystemError(code: errno) }
    return FileIdentity(facts) == name.current?.identity
  }

  /// The file at a path; the same one if it is followed under another name.
  private func file(at path: String, last lines: Int? = nil) throws -> FollowedFile {
    let file = try FollowedFile(path, last: lines)
    if let known = files[file.identity] { return known }
    files[file.identity] = file
    // By its descriptor, for the path may lead elsewhere by now.
    file.watch = watches.add("/proc/self/fd/\(file.descriptor)", for: IN_MODIFY)
    return file
  }

  private func closeUnlessFollowed(_ file: FollowedFile) {
    guard !names.contains(where: { $0.current === file || $0.previous === file }) else { return }
    endLine(of: file)
    file.watch.map(watches.remove)
    files[file.identity] = nil
  }

  private func endLine(of file: FollowedFile) {
    if let rest = file.takeRest() { takeLine(rest, file.path) }
  }

  private func say(_ text: String) { StandardError.say("tail", text) }
}
