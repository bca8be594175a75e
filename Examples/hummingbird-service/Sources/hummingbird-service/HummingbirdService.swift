import Hummingbird
import NIOPosix
import StallMonitor
import StallMonitorNIO

/// A web service on Hummingbird, with five handlers that block as handlers do by mistake.
///
/// A handler runs as a job on a thread of Swift's task pool, not on an event loop. While it blocks, other requests have
/// one thread fewer.
@main
struct HummingbirdService {
  static func main() async throws {
    let monitor = try StallMonitor.start()
    try monitor.watch(MultiThreadedEventLoopGroup.singleton)

    let arguments = CommandLine.arguments.dropFirst()
    let port = arguments.first.flatMap { Int($0) } ?? 8080
    let greetings = arguments.dropFirst().first ?? "/etc/motd"

    let router = Router()
    router.get("/health") { _, _ in "healthy\n" }
    router.get("/greeting") { _, _ in try readFile(greetings) }
    router.get("/resolve") { request, _ in
      try addresses(of: request.uri.queryParameters.require("host")).map { $0 + "\n" }.joined()
    }
    router.get("/price") { _, _ in "\(currentPrice())\n" }
    let offers = Offers()
    router.get("/offer") { _, _ in "\(offers.next())\n" }
    router.get("/search") { request, _ in
      try isListOfWords(request.uri.queryParameters.require("text")) ? "words\n" : "no words\n"
    }
    let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
    try await application.runService()
    monitor.stop()
  }
}
