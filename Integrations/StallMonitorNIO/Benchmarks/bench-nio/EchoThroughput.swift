import BenchmarkSupport
import Glibc
import NIOCore
import NIOPosix

/// Round trips of 64-byte messages a second over loopback: one server loop, one client loop, many connections.
final class EchoThroughput: @unchecked Sendable {  // The counters belong to the client's loop.
  private static let connections = 16
  private static let messageSize = 64

  let server = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let client = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let counters: [Counter]

  init() throws {
    let listener = try ServerBootstrap(group: server)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Echo()) }
      }
      .bind(host: "127.0.0.1", port: 0).wait()
    let client = client
    counters = try (0..<Self.connections).map { _ in
      let counter = Counter()
      _ = try ClientBootstrap(group: client)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(PingPong(counter, size: Self.messageSize))
          }
        }
        .connect(to: listener.localAddress!).wait()
      return counter
    }
  }

  /// Round trips a second, and the server thread's processor time for one, over some time.
  func measure(seconds: Double) throws -> (rate: Double, processorNanoseconds: Double) {
    let (start, used, count) = try (nanoseconds(CLOCK_MONOTONIC), serverTime(), total())
    usleep(UInt32(seconds * 1e6))
    let (end, usedAtEnd, countAtEnd) = try (nanoseconds(CLOCK_MONOTONIC), serverTime(), total())
    let trips = Double(countAtEnd - count)
    return (trips / (end - start) * 1e9, (usedAtEnd - used) / trips)
  }

  func stop() throws {
    try client.syncShutdownGracefully()
    try server.syncShutdownGracefully()
  }

  private func total() throws -> Int {
    try client.next().submit { [counters] in counters.reduce(0) { $0 + $1.value } }.wait()
  }

  private func serverTime() throws -> Double {
    try server.next().submit { nanoseconds(CLOCK_THREAD_CPUTIME_ID) }.wait()
  }
}

/// Answers received; belongs to the client's loop.
private final class Counter: @unchecked Sendable {  // Read and written on one event loop.
  var value = 0
}

private final class Echo: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.writeAndFlush(data, promise: nil) }
}

private final class PingPong: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let counter: Counter
  private let message: ByteBuffer
  private var received = 0

  init(_ counter: Counter, size: Int) {
    self.counter = counter
    message = ByteBuffer(repeating: 0x61, count: size)
  }

  func channelActive(context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(message), promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    received += unwrapInboundIn(data).readableBytes
    guard received >= message.readableBytes else { return }
    received = 0
    counter.value += 1
    context.writeAndFlush(wrapOutboundOut(message), promise: nil)
  }
}
