import Dispatch
import Glibc
import NIOCore
import NIOPosix
import StallMonitor
import StallMonitorNIO

// Answers each line, from an event loop that is watched. `sleep 600` is a blocking call in a
// handler: all connections on the same event loop wait for it.

final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let words = String(buffer: unwrapInboundIn(data)).split(whereSeparator: \.isWhitespace)
    if words.first == "sleep", let milliseconds = words.dropFirst().first.flatMap({ UInt32($0) }) {
      waitForASlowBackend(milliseconds: milliseconds)
    }
    context.writeAndFlush(data, promise: nil)
  }
}

@inline(never)
func waitForASlowBackend(milliseconds: UInt32) {
  usleep(milliseconds * 1000)
  report("The slow backend has answered.")
}

func report(_ text: String) {
  let line = Array((text + "\n").utf8)
  _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

let monitor = try StallMonitor.start()
let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
try monitor.watch(group)

let server = try ServerBootstrap(group: group)
  .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  .childChannelInitializer { channel in
    channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(EchoHandler()) }
  }
  .bind(host: "127.0.0.1", port: CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 7007).wait()
report("Serving on port \(server.localAddress?.port ?? 0); SIGTERM stops it.")

signal(SIGTERM, SIG_IGN)
let termination = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .global())
termination.setEventHandler { @Sendable [server] in server.close(promise: nil) }
termination.resume()

try server.closeFuture.wait()
try group.syncShutdownGracefully()
monitor.stop()
report("Stopped.")
