import NIOCore
import StallMonitor

/// Answers the heartbeats that come in by a channel, and lets the loop go when the channel is closed, as it is when the loop shuts down.
///
/// On the loop's thread.
final class HeartbeatHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let watch: () -> LoopHeartbeat?
  private let didClose: () -> Void
  private var heartbeat: LoopHeartbeat?

  init(_ watch: @escaping () -> LoopHeartbeat?, didClose: @escaping () -> Void) {
    (self.watch, self.didClose) = (watch, didClose)
  }

  func channelActive(context: ChannelHandlerContext) {
    heartbeat = watch()
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { heartbeat?.answer() }

  func channelInactive(context: ChannelHandlerContext) {
    // The loop turns, or this would not be called: a stall that it is in by now has ended.
    heartbeat?.answer()
    heartbeat?.end()
    heartbeat = nil
    didClose()
    context.fireChannelInactive()
  }
}
