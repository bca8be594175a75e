import Glibc
import LoopEngine

/// Reads lines from a pipe, a terminal or a socket, until its end.
final class StreamFollower: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  private let descriptor: Int32
  private let handle: ([UInt8]) -> Void
  private let didEnd: (SystemError?) -> Void
  private var splitter = LineSplitter()
  private var source: Loop.DescriptorSource?

  /// Lines that were too long.
  var brokenLines: Int { splitter.skipped }

  /// Makes one that does not read yet; the descriptor stays the caller's.
  ///
  /// `didEnd` has the error if that is why nothing more can be read.
  init(_ descriptor: Int32, handle: @escaping ([UInt8]) -> Void, didEnd: @escaping (SystemError?) -> Void) {
    self.descriptor = descriptor
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
    let code = errno
    if count < 0, code == EINTR || code == EAGAIN { return true }
    if count > 0 {
      splitter.take(buffer[..<count], handle)
      return true
    }
    source?.invalidate()
    if let rest = splitter.takeRest() { handle(rest) }
    didEnd(count < 0 ? SystemError(code: code) : nil)
    return false
  }
}
