import Dispatch
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc
import NIOPosix
import StallMonitor
import StallMonitorNIO

/// A service on gRPC Swift 2 whose handlers and event loops are watched; with a method's name, a client of it.
@main
struct GRPCService {
  static func main() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    let port = arguments.first.flatMap { Int($0) } ?? 31415
    if arguments.count > 1 {
      try await call(arguments[1], with: arguments.count > 2 ? arguments[2] : "", port: port)
    } else {
      try await serve(port: port)
    }
  }

  private static func serve(port: Int) async throws {
    let monitor = try StallMonitor.start()
    try monitor.watch(MultiThreadedEventLoopGroup.singleton)
    let server = GRPCServer(
      transport: .http2NIOPosix(address: .ipv4(host: "127.0.0.1", port: port), transportSecurity: .plaintext),
      services: [Catalog()])
    signal(SIGTERM, SIG_IGN)
    let stop = DispatchSource.makeSignalSource(signal: SIGTERM)
    stop.setEventHandler { server.beginGracefulShutdown() }
    stop.resume()
    try await withThrowingDiscardingTaskGroup { group in
      group.addTask { try await server.serve() }
      if let address = try await server.listeningAddress { report("Serving on \(address)") }
    }
    stop.cancel()
    monitor.stop()
  }

  private static func call(_ method: String, with text: String, port: Int) async throws {
    let transport = try HTTP2ClientTransport.Posix(
      target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext)
    let answer = try await withGRPCClient(transport: transport) { client in
      try await client.unary(
        request: ClientRequest(message: text),
        descriptor: MethodDescriptor(service: Catalog.service, method: method), serializer: TextCoding(),
        deserializer: TextCoding(), options: .defaults
      ) { try $0.message }
    }
    print(answer)
  }

  private static func report(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
