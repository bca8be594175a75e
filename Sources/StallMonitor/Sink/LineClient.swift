import PlatformLibc
import StallCapture

/// Brings lines to all outputs but the agent, and samples into detail files.
///
/// Belongs to the output thread.
final class LineClient: OutputClient {
  /// When a destination that accepts nothing is tried again: at first, and at most, in nanoseconds.
  private static let retryIntervals: ClosedRange<UInt64> = 200_000_000...10_000_000_000

  private let sink: OutputSink
  private let writer: LineWriter
  private let details: DetailWriter?
  private var taken: UInt64 = 0
  private var retryInterval = LineClient.retryIntervals.lowerBound
  private var nextTry: UInt64 = 0
  /// The last flush has achieved nothing, so what poll(2) says of the destination is not relied on.
  private var isStuck = false

  init(sink: OutputSink, writer: LineWriter, details: DetailFiles?) {
    self.sink = sink
    self.writer = writer
    self.details = details.map { DetailWriter($0, written: sink.writtenDetails) }
  }

  func run() {
    while true {
      let woken = sink.waker.reset()
      let new = sink.take()
      deliver(new)
      if let request = new.request, answer(request) { return }
      wait(woken)
    }
  }

  private func deliver(_ new: OutputSink.Delivery) {
    taken = new.lines
    for item in new.items {
      switch item {
      case .detail(let detail): details?.write(detail)
      case .line(var line):
        if let other = line.bytesWithoutDetail, !sink.writtenDetails.contains(line.stall?.id ?? "") {
          line.bytes = other
        }
        writer.write(line)
      }
    }
    let sentBefore = writer.bytesSent
    if writer.wantsFlush { writer.flush() }
    isStuck = writer.wantsFlush && writer.bytesSent == sentBefore
    sink.lose(writer.takeDropped())
    if writer.isSettled { sink.settle(taken) }
  }

  /// Does what the watchdog waits for; true if that was the end.
  private func answer(_ request: OutputSink.Request) -> Bool {
    guard case .close = request else {
      if case .settle(let deadline) = request { writer.settle(until: deadline) }
      if writer.isSettled { sink.settle(taken) }
      sink.answer()
      return false
    }
    sink.willEnd()
    return true
  }

  private func wait(_ woken: Int32?) {
    let now = MonotonicClock.now()
    var deadline: UInt64?
    if writer.wantsFlush {
      if now >= nextTry {
        nextTry = now + retryInterval
        retryInterval = min(2 * retryInterval, Self.retryIntervals.upperBound)
      }
      deadline = nextTry
    } else {
      (retryInterval, nextTry) = (Self.retryIntervals.lowerBound, 0)
    }
    // A full pipe says when there is space; a full disk does not.
    let entry = pollfd(
      fd: writer.wantsFlush && !isStuck ? writer.pollableDescriptor : -1, events: Int16(POLLOUT), revents: 0)
    sink.waker.sleep(on: woken, or: entry, until: deadline)
  }
}
