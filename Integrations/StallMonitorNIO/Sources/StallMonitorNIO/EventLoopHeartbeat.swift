import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import StallMonitor

#if canImport(Glibc)
import Glibc
#else
import Musl
#endif

/// One event loop that is asked through a descriptor whether it turns.
///
/// Not through `execute`, which takes the loop's locks and complains of, or ends, a process that calls it as the loop shuts down. The channel
/// is closed with the loop's others, before that. It also sees a loop that runs its tasks and serves no descriptor any more.
final class EventLoopHeartbeat: Sendable {
  private enum State {
    case made
    case starting
    case watching(any Channel)
    case stopped
  }

  private let name: String
  private let threshold: Duration?
  private let monitor: StallMonitor
  private let loop: any EventLoop
  private let waker: WakeSocket
  private let state = NIOLockedValueBox(State.made)
  private let pending = NIOLockedValueBox(Pending())

  /// The heartbeat that the loop was woken for, until it is acknowledged.
  private struct Pending {
    var heartbeat: Heartbeat?
    // A heartbeat refers to the closure that stores it here: after the last one, none is stored.
    var isClosed = false
  }

  /// Makes what is needed, and begins nothing.
  init(loop: any EventLoop, name: String, threshold: Duration?, monitor: StallMonitor) throws(StallMonitorError) {
    guard NIOPipeBootstrap(validatingGroup: loop) != nil else {
      throw StallMonitorError(
        .unsupportedEventLoop,
        message: "\(name) is \(type(of: loop)); allowed: event loops of a MultiThreadedEventLoopGroup")
    }
    // Checked here, on the caller's thread; the loop's thread has nobody to throw to.
    try LoopDescription(name: name, kind: .nio, threshold: threshold) { _ in }.validate()
    (self.name, self.threshold, self.monitor, self.loop) = (name, threshold, monitor, loop)
    do { waker = try WakeSocket() } catch {
      throw StallMonitorError(
        .noDescriptor, message: "\(name) cannot be watched: no descriptor (errno \(error.code))")
    }
  }

  /// Registers with the loop, which may not run yet.
  func begin() {
    state.withLockedValue { $0 = .starting }
    let descriptor = waker.far
    NIOPipeBootstrap(group: loop)
      // One read a heartbeat: nothing is left after it.
      .channelOption(.maxMessagesPerRead, value: 1)
      .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 8))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            HeartbeatHandler(self.watchCurrentThread, acknowledge: self.acknowledge) { self.didClose() })
        }
      }
      .takingOwnershipOfDescriptor(input: descriptor)
      .whenComplete { result in
        switch result {
        case .success(let channel): self.didBegin(channel)
        case .failure(let error):
          close(descriptor)
          self.say("\(error)")
        }
      }
  }

  /// Ends the watch.
  func stop() {
    // On the loop's thread the channel closes at once, and wants the lock.
    if loop.inEventLoop { return end(stopped()) }
    // On any other thread nothing may be asked of a loop that has shut down. The loop itself takes the lock as it closes the channel,
    // before it is shut down.
    state.withLockedValue { state in
      end(state)
      state = .stopped
    }
  }

  private func end(_ state: State) {
    switch state {
    case .made: close(waker.far)
    case .watching(let channel): channel.close(promise: nil)
    // Closed when the loop has got it.
    case .starting, .stopped: break
    }
  }

  @discardableResult
  private func stopped() -> State {
    state.withLockedValue { state in
      defer { state = .stopped }
      return state
    }
  }

  private func didBegin(_ channel: any Channel) {
    let isStopped = state.withLockedValue { state in
      if case .stopped = state { return true }
      state = .watching(channel)
      return false
    }
    if isStopped { channel.close(promise: nil) }
  }

  /// On the loop's thread.
  private func watchCurrentThread() -> LoopWatch? {
    do throws(StallMonitorError) {
      return try monitor.watchCurrentThread(
        as: LoopDescription(name: name, kind: .nio, threshold: threshold) { [waker, pending] heartbeat in
          pending.withLockedValue { if !$0.isClosed { $0.heartbeat = heartbeat } }
          waker.wake()
        })
    } catch {
      say(error.message)
      return nil
    }
  }

  /// On the loop's thread.
  private func acknowledge() {
    let heartbeat = pending.withLockedValue { pending in
      defer { pending.heartbeat = nil }
      return pending.heartbeat
    }
    heartbeat?.acknowledge()
  }

  /// On the loop's thread.
  private func didClose() {
    pending.withLockedValue { $0 = Pending(isClosed: true) }
    stopped()
  }

  private func say(_ reason: String) {
    let line = Array("stallmonitor: the event loop \(name) cannot be watched: \(reason)\n".utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
