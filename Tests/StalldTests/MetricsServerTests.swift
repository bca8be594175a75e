import Foundation
import LoopEngine
import TestSupport
import Testing

@testable import stalld

/// `/metrics` and `/healthz`, asked by real clients.
@Suite(
  .serialized, .takingTurns,
  .timeLimit(.minutes(3))) struct MetricsServerTests
{
  @Test func answersWhatIsAskedFor() throws {
    let driver = try AgentDriver()
    try driver.record([SampleReport()])
    let server = try driver.server()
    defer { try? driver.perform { _ in server.stop() } }
    let page = try ClientSocket.http(server.port, "GET /metrics HTTP/1.1")
    #expect(page.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(page.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
    #expect(page.contains("\nstalld_stalls_total{service=\"web\",cause=\"lock\",user=\"0\",severity=\"warn\"} 1\n"))
    #expect(page.contains("\nprocess_resident_memory_bytes "))
    let head = try ClientSocket.http(server.port, "HEAD /metrics HTTP/1.1")
    #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n") && head.hasSuffix("\r\n\r\n"))
    #expect(try ClientSocket.http(server.port, "GET /etc/passwd HTTP/1.1").hasPrefix("HTTP/1.1 404 "))
    // The absolute form, which clients of a proxy send, and queries.
    for (target, status) in [
      ("http://localhost:9464/metrics", 200), ("HTTP://user@[::1]:1/metrics?a=b", 200), ("/metrics?http://x/y", 200),
      ("https://x/healthz", 200), ("http://localhost", 404), ("http://localhost/", 404),
      ("/http://localhost/metrics", 404), ("/metrics/", 404), ("ftp://localhost/metrics", 404),
    ] {
      for method in ["GET", "HEAD"] {
        let answer = try ClientSocket.http(server.port, "\(method) \(target) HTTP/1.1")
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(method) \(target): \(answer.prefix(100))")
      }
    }
    let post = try ClientSocket.http(server.port, "POST /metrics HTTP/1.1\r\nContent-Length: 0")
    #expect(post.hasPrefix("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"))
    // A body that never comes is not waited for.
    #expect(
      try ClientSocket.http(server.port, "PUT /metrics HTTP/1.1\r\nContent-Length: 99").hasPrefix("HTTP/1.1 405 "))
    #expect(try ClientSocket.http(server.port, "\u{1}\u{2} \u{3}").hasPrefix("HTTP/1.1 200") == false)
  }

  @Test func healthOfTheAgentIsServed() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "metrics.sock").path
    let server = try driver.server("unix:\(path)")
    func ask() throws -> String {
      let socket = try ClientSocket(path: path)
      socket.send("GET /healthz HTTP/1.0\r\n\r\n")
      return socket.readToEnd()
    }
    let well = try ask()
    #expect(well.contains(" 200 OK\r\n") && well.hasSuffix("\r\n\r\nok\n"))
    try driver.perform { $0.problems = ["output file:/x has not written for 31 s", "the memory limit is reached"] }
    let ill = try ask()
    #expect(ill.contains(" 503 Service Unavailable\r\n"))
    #expect(ill.hasSuffix("\r\n\r\noutput file:/x has not written for 31 s\nthe memory limit is reached\n"))
    try driver.perform { _ in server.stop() }
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test(.repeatedAfterStandstills(because: "wake-ups are counted over a time"))
  func nothingWakesWithoutRequests() throws {
    let driver = try AgentDriver()
    let server = try driver.server()
    defer { try? driver.perform { _ in server.stop() } }
    _ = try ClientSocket.http(server.port, "GET /metrics HTTP/1.1")
    #expect(try eventually { try driver.perform { _ in server.openConnections } == 0 })
    let before = try driver.turnsAtRest()
    usleep(1_500_000)
    #expect(driver.loop.statistics.turns == before)
  }

  @Test func onlyTheMachineItselfCanConnect() {
    for text in [
      "0.0.0.0:9464", "192.168.1.1:9464", "9464", ":9464", "127.0.0.1", "127.0.0.1:99999", "[::]:1", "unix:x", "",
    ] {
      #expect(MetricsAddress(text) == nil, "\(text)")
    }
    for text in ["127.0.0.1:9464", "127.1.2.3:1", "[::1]:9464", "unix:/run/x"] {
      #expect(MetricsAddress(text)?.description == text)
    }
  }

  @Test func busyAddressIsNamed() throws {
    let driver = try AgentDriver()
    let server = try driver.server()
    defer { try? driver.perform { _ in server.stop() } }
    let failure = #expect(throws: StreamListener.Failure.self) { try driver.server("127.0.0.1:\(server.port)") }
    #expect(failure?.description == "cannot listen at 127.0.0.1:\(server.port): Address already in use")
  }

  /// libmicrohttpd 1.0 (Debian 13) only queues connections that are added; 0.9 starts each at once.
  @Test(.repeatedAfterStandstills(because: "wake-ups are counted over a time"))
  func connectionsOfOneTurnEndEachInItsTime() throws {
    let driver = try AgentDriver()
    let server = try driver.server(connectionTime: .seconds(2))
    defer { try? driver.perform { _ in server.stop() } }
    // While the loop is here, all of them wait for it.
    let clients = try driver.perform { _ in
      Unchecked(try (0..<3).map { _ in try ClientSocket(port: server.port) })
    }
    let (idle, asking) = (clients.value[0], clients.value[1...])
    for client in asking {
      client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
      #expect(client.readToEnd().hasSuffix("ok\n"))
    }
    #expect(try driver.perform { _ in server.openConnections } == 1)
    #expect(eventually { idle.isClosed })
    #expect(try eventually { try driver.perform { _ in server.openConnections } == 0 })
    let before = try driver.turnsAtRest()
    usleep(500_000)
    #expect(driver.loop.statistics.turns == before)
  }

  @Test func hostileClientsDoNoHarm() throws {
    let driver = try AgentDriver()
    // A text that no socket's buffer takes whole.
    try driver.record(
      (0..<1000).flatMap { service in
        ["lock", "io", "running", "sleep"].map {
          SampleReport(
            id: "\(service)\($0)", service: "s\(service)" + String(repeating: "x", count: 190), cause: $0)
        }
      })
    let server = try driver.server(connectionTime: .seconds(2))
    defer { try? driver.perform { _ in server.stop() } }
    // They ask, and never read; a local socket takes less than a text.
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "metrics.sock").path
    let local = try driver.server("unix:\(path)", connectionTime: .seconds(2))
    defer { try? driver.perform { _ in local.stop() } }
    let deaf = try (0..<20).map { _ in try ClientSocket(path: path) }
    for socket in deaf { socket.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") }
    // They ask, and go.
    for _ in 0..<20 { try ClientSocket(path: path).send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") }
    // A byte now and then.
    let slow = try ClientSocket(port: server.port)
    #expect(slow.send("GET /metrics HT"))
    // Far more than are served at once.
    let crowd = try (0..<1000).map { _ in try ClientSocket(port: server.port) }
    #expect(try driver.perform { _ in server.openConnections } <= MetricsServer.connectionLimit)
    #expect(try ClientSocket.http(server.port, "GET /healthz HTTP/1.1").hasSuffix("ok\n"))
    // The slow one's time is over however busy it keeps.
    #expect(eventually { !slow.send("x") || slow.isClosed })
    // Requests that are cut off, endless headers, and no HTTP at all.
    for bytes in [
      "GET /metrics HT", String(repeating: "x", count: 100_000),
      "GET / HTTP/1.1\r\n" + String(repeating: "a: b\r\n", count: 9000),
    ] {
      try ClientSocket(port: server.port).send(bytes)
    }
    let page = try ClientSocket.http(server.port, "GET /metrics HTTP/1.1")
    #expect(page.count > 500_000 && page.hasSuffix("\n"))
    #expect(try eventually { try driver.perform { _ in server.openConnections + local.openConnections } == 0 })
    withExtendedLifetime((deaf, crowd)) {}
  }

  @Test(.enabled(if: Program.installed("prometheus") != nil, "prometheus is missing (Debian: prometheus)"))
  func prometheusScrapesIt() throws {
    let driver = try AgentDriver()
    try driver.record([SampleReport(service: "we\"ird"), SampleReport(event: "stall.fatal", id: "2")])
    let server = try driver.server()
    defer { try? driver.perform { _ in server.stop() } }
    let prometheus = try Prometheus(scraping: server.port)
    defer { prometheus.stop() }
    var answer = ""
    let came = eventually(within: 90) {
      answer = (try? prometheus.query("stalld_stalls_total")) ?? ""
      return answer.contains("\"severity\":\"error\"")
    }
    #expect(came, "\(answer)\n\(prometheus.complaints)")
    let found = try #require(JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any])
    let results = try #require((found["data"] as? [String: Any])?["result"] as? [[String: Any]])
    let services = results.compactMap { ($0["metric"] as? [String: String])?["service"] }
    #expect(Set(services) == ["we\"ird", "web"])
    #expect(results.allSatisfy { ($0["value"] as? [Any])?.last as? String == "1" })
    #expect(try prometheus.query("up").contains("\"1\"]"))
  }
}

/// A Prometheus of the test's own.
private final class Prometheus {
  private let process: Process
  private let scratch: ScratchDirectory
  private let port: ReservedPort
  private let log: String

  init(scraping target: UInt16) throws {
    scratch = try ScratchDirectory()
    log = scratch.url.appending(path: "log").path
    port = try ReservedPort()
    let configuration = scratch.url.appending(path: "prometheus.yml")
    try Data(
      """
      global: {scrape_interval: 1s}
      scrape_configs: [{job_name: stalld, static_configs: [{targets: ["127.0.0.1:\(target)"]}]}]
      """.utf8
    ).write(to: configuration)
    _ = FileManager.default.createFile(atPath: log, contents: nil)
    let output = try FileHandle(forWritingTo: URL(filePath: log))
    process = try Program.start(
      Program.installed("prometheus")!,
      [
        "--config.file=\(configuration.path)", "--storage.tsdb.path=\(scratch.url.appending(path: "data").path)",
        "--web.listen-address=127.0.0.1:\(port.number)", "--log.level=warn",
      ], output: output, errors: output)
  }

  var complaints: String { (try? String(contentsOfFile: log, encoding: .utf8)) ?? "" }

  func query(_ expression: String) throws -> String {
    try ClientSocket.http(port.number, "GET /api/v1/query?query=\(expression) HTTP/1.0")
      .components(separatedBy: "\r\n\r\n").last ?? ""
  }

  func stop() {
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}
