import Glibc
import Hummingbird
import NIOPosix
import StallMonitor
import StallMonitorNIO

/// A web service on Hummingbird as it stands, whose event loops are watched, and those of a client that it uses.
///
/// `/slow` has the client's event loop blocked, as a callback in the wrong place does. `/health` is served by others, and answers all the time.
@main
struct HummingbirdService {
  static func main() async throws {
    let monitor = try StallMonitor.start()
    try monitor.watch(MultiThreadedEventLoopGroup.singleton)
    let backend = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    try monitor.watch(backend, name: "backend")

    let router = Router()
    router.get("/health") { _, _ in "healthy\n" }
    router.get("/slow") { request, _ in
      let milliseconds = request.uri.queryParameters.get("ms", as: UInt32.self) ?? 600
      try await backend.any().submit { waitForASlowBackend(milliseconds: milliseconds) }.get()
      return "The slow backend has answered.\n"
    }
    let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 8080
    let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
    try await application.runService()
    monitor.stop()
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
