import Glibc
import NIOCore
import NIOPosix

/// Answers each message with itself, after the work that the message asks for.
final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let request = String(buffer: buffer).split(separator: " ")
    let milliseconds = request.dropFirst().first.flatMap { Int($0) } ?? 0
    switch request.first {
    case "sleep": sleepInChannelRead(milliseconds: milliseconds)
    case "compute": computeInChannelRead(milliseconds: milliseconds)
    default: break
    }
    context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
  }
}

@inline(never)
func sleepInChannelRead(milliseconds: Int) {
  usleep(UInt32(milliseconds * 1000))
  say("victim: slept=\(milliseconds)")
}

@inline(never)
func computeInChannelRead(milliseconds: Int) {
  // With no function of its own, which a sample would be in.
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  let end = time.tv_sec * 1000 + time.tv_nsec / 1_000_000 + milliseconds
  var count: UInt64 = 0
  while time.tv_sec * 1000 + time.tv_nsec / 1_000_000 < end {
    clock_gettime(CLOCK_MONOTONIC, &time)
    count &+= 1
  }
  say("victim: counted=\(count)")
}

func now() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// An echo server on loopback; connections go to the group's loops in turn.
func serve(on group: any EventLoopGroup) throws -> any Channel {
  try ServerBootstrap(group: group)
    .childChannelInitializer { channel in
      channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(EchoHandler()) }
    }
    .bind(host: "127.0.0.1", port: 0).wait()
}

/// A client with a blocking socket, which no event loop serves.
struct Client {
  private let descriptor: Int32

  init(to server: any Channel) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(server.localAddress!.port!).bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    precondition(code == 0, "connect: \(errno)")
  }

  func send(_ message: String) {
    _ = message.withCString { write(descriptor, $0, strlen($0)) }
  }

  /// Waits for an answer.
  func receive() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    _ = read(descriptor, &buffer, buffer.count)
  }

  func ask(_ message: String) {
    send(message)
    receive()
  }
}
