import NIOCore
import StallMonitor

/// Acknowledges the heartbeats that come in by a channel, and ends the watch when the channel is
/// closed, as it is when the loop shuts down.
///
/// On the loop's thread.
final class HeartbeatHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let begin: () -> LoopWatch?
  private let acknowledge: () -> Void
  private let didClose: () -> Void
  private var watch: LoopWatch?

  init(_ begin: @escaping () -> LoopWatch?, acknowledge: @escaping () -> Void, didClose: @escaping () -> Void) {
    (self.begin, self.acknowledge, self.didClose) = (begin, acknowledge, didClose)
  }

  func channelActive(context: ChannelHandlerContext) {
    watch = begin()
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { acknowledge() }

  func channelInactive(context: ChannelHandlerContext) {
    // The loop turns, or this would not be called: a stall that it is in by now has ended.
    acknowledge()
    watch?.stop()
    watch = nil
    didClose()
    context.fireChannelInactive()
  }
}
