import Glibc
import LoopEngine

/// Reads lines from a pipe, a terminal or a socket, until its end.
final class StreamFollower: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  private let descriptor: Int32
  private let name: String
  private let handle: ([UInt8]?) -> Void
  private let didEnd: ((any Error)?) -> Void
  private var splitter = LineSplitter()
  private var source: Loop.DescriptorSource?
  private var isAtBeginning = true

  /// Makes one that does not read yet.
  ///
  /// - Parameters:
  ///   - descriptor: It stays the caller's.
  ///   - name: The stream's, for people.
  ///   - handle: Called with each line, without its newline; with nil for one that is too long.
  ///   - didEnd: Called at the end, with the reason if it is no ordinary one.
  init(
    _ descriptor: Int32, name: String, handle: @escaping ([UInt8]?) -> Void,
    didEnd: @escaping ((any Error)?) -> Void
  ) {
    self.descriptor = descriptor
    self.name = name
    self.handle = handle
    self.didEnd = didEnd
  }

  func start(on loop: Loop) {
    do {
      source = try loop.watch(descriptor, name: "followed stream") { [weak self] _, _ in _ = self?.readSome() }
    } catch {
      // A regular file or /dev/null is always ready, and epoll does not take it.
      readOn(loop)
    }
  }

  /// Reads a piece in each turn: between them the loop can be stopped.
  private func readOn(_ loop: Loop) {
    loop.perform(name: "followed file") { if self.readSome() { self.readOn(loop) } }
  }

  /// False at the end.
  private func readSome() -> Bool {
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    let count = read(descriptor, &buffer, buffer.count)
    if count < 0, errno == EINTR || errno == EAGAIN { return true }
    var reason: (any Error)? = count < 0 ? SystemError(code: errno) : nil
    if count > 0 {
      if isAtBeginning {
        reason = InputAdvice.GzipInput(descriptor == STDIN_FILENO ? "-" : name, buffer[..<count], for: "tail")
      }
      isAtBeginning = false
      if reason == nil {
        splitter.take(buffer[..<count], handle)
        return true
      }
    }
    source?.invalidate()
    if let rest = splitter.takeRest() { handle(rest) }
    didEnd(reason)
    return false
  }
}
