import NIOCore
import StallMonitor

/// Acknowledges the heartbeats that come in by a channel, and ends the watch when the channel is
/// closed, as it is when the loop shuts down.
///
/// On the loop's thread.
final class HeartbeatHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let watch: () -> Heartbeat?
  private let didClose: () -> Void
  private var heartbeat: Heartbeat?

  init(_ watch: @escaping () -> Heartbeat?, didClose: @escaping () -> Void) {
    (self.watch, self.didClose) = (watch, didClose)
  }

  func channelActive(context: ChannelHandlerContext) {
    heartbeat = watch()
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { heartbeat?.acknowledge() }

  func channelInactive(context: ChannelHandlerContext) {
    // The loop turns, or this would not be called: a stall that it is in by now has ended.
    heartbeat?.acknowledge()
    heartbeat?.stop()
    heartbeat = nil
    didClose()
    context.fireChannelInactive()
  }
}
