import CMicrohttpd
import Glibc
import LoopEngine

/// `/metrics` and `/healthz`, by libmicrohttpd on the agent's own loop.
///
/// libmicrohttpd has no thread and no listening socket here: connections are accepted by the loop and handed over, and the loop waits for
/// libmicrohttpd's epoll descriptor. So nothing wakes while nobody asks, and how many connections there are, and for how long, is decided
/// here. It must be stopped before it is released.
final class MetricsServer: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  /// The limit of connections: a new one replaces the oldest.
  static let connectionLimit = 64
  /// How long a connection may take in all, so that a byte now and then keeps none open.
  static let connectionTime = Duration.seconds(10)
  /// A text is made at most so often, however many ask.
  private static let freshness = Duration.milliseconds(200)

  let port: UInt16
  private let connectionTime: Duration
  private let loop: Loop
  private let listener: StreamListener
  private let metrics: () -> [UInt8]
  private let problems: () -> [String]
  private var daemon: OpaquePointer?
  private var acceptSource: Loop.DescriptorSource?
  private var pollSource: Loop.DescriptorSource?
  private var timer: Loop.Timer?
  private var isRunPlanned = false
  private var isStopped = false
  private struct Connection {
    var number: Int
    var descriptor: Int32
    var began = Loop.Instant.now
    /// Whether it has been shut down: its end is near.
    var isShut = false

    mutating func shut() {
      isShut = true
      shutdown(descriptor, Int32(SHUT_RDWR))
    }
  }

  /// In the order of their beginning.
  private var connections: [Connection] = []
  private var lastNumber = 0
  private var metricsPage: (page: OpaquePointer, made: Loop.Instant)?

  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// Serves from now on.
  ///
  /// - Parameters:
  ///   - address: Where; port 0 is any.
  ///   - loop: The calling thread's.
  ///   - connectionTime: How long a connection may take in all.
  ///   - metrics: The text, asked for on the loop's thread.
  ///   - problems: Why the agent is not healthy; empty if it is.
  /// - Throws: ``StreamListener/Failure`` if nobody can listen there, ``Failure`` if libmicrohttpd does not start.
  init(
    address: MetricsAddress, loop: Loop, connectionTime: Duration = MetricsServer.connectionTime,
    metrics: @escaping () -> [UInt8], problems: @escaping () -> [String]
  ) throws {
    self.connectionTime = connectionTime
    self.loop = loop
    self.metrics = metrics
    self.problems = problems
    listener = try address.listen()
    port = listener.port
    do {
      try start()
    } catch {
      stop()
      throw error
    }
  }

  private func start() throws {
    let own = Unmanaged.passUnretained(self).toOpaque()
    let didNotify: MHD_NotifyConnectionCallback = { own, connection, context, code in
      let server = Unmanaged<MetricsServer>.fromOpaque(own!).takeUnretainedValue()
      if code == .CONNECTION_NOTIFY_STARTED {
        context!.pointee = UnsafeMutableRawPointer(bitPattern: server.connectionBegan(connection!))
      } else {
        server.connectionEnded(Int(bitPattern: context!.pointee))
      }
    }
    var options = [
      MHD_OptionItem(option: .CONNECTION_MEMORY_LIMIT, value: 8 << 10, ptr_value: nil),
      // Above the limit that is kept here, which it must not come in the way of.
      MHD_OptionItem(option: .CONNECTION_LIMIT, value: 2 * Self.connectionLimit, ptr_value: nil),
      MHD_OptionItem(
        option: .NOTIFY_CONNECTION, value: unsafeBitCast(didNotify, to: Int.self), ptr_value: own),
      MHD_OptionItem(option: .END, value: 0, ptr_value: nil),
    ]
    let flags = MHD_USE_EPOLL.rawValue | MHD_USE_NO_LISTEN_SOCKET.rawValue
    daemon = options.withUnsafeMutableBufferPointer { options in
      withVaList([Int32(MHD_OPTION.ARRAY.rawValue), options.baseAddress!, Int32(MHD_OPTION.END.rawValue)]) { list in
        MHD_start_daemon_va(
          flags, 0, nil, nil,
          { own, connection, path, method, _, _, _, state in
            Unmanaged<MetricsServer>.fromOpaque(own!).takeUnretainedValue().answer(
              connection!, path: String(cString: path!), method: String(cString: method!), state: state!)
          }, own, list)
      }
    }
    guard let daemon else { throw Failure(description: "cannot start libmicrohttpd: \(SystemError(code: errno))") }
    let poll = cmicrohttpd_epoll_descriptor(daemon)
    guard poll >= 0 else { throw Failure(description: "this libmicrohttpd was built without epoll") }
    pollSource = try loop.watch(poll, name: "metrics connections") { [weak self] _, _ in self?.run() }
    acceptSource = try loop.watch(listener.descriptor, name: "metrics listener") { [weak self] _, _ in self?.accept() }
  }

  /// Ends all connections; nobody can connect any more.
  func stop() {
    // A second stop would close what has got the descriptor's number since.
    guard !isStopped else { return }
    isStopped = true
    defer { listener.end() }
    acceptSource?.invalidate()
    pollSource?.invalidate()
    timer?.invalidate()
    if let daemon { MHD_stop_daemon(daemon) }
    daemon = nil
    if let metricsPage { MHD_destroy_response(metricsPage.page) }
    metricsPage = nil
  }

  // MARK: Connections

  private func accept() {
    // A flood has to leave time for the loop's other work.
    for _ in 0..<16 {
      var isExhausted = false
      guard let daemon, let descriptor = listener.accept(isExhausted: &isExhausted) else {
        if isExhausted { restAccepting() }
        break
      }
      if connections.count >= Self.connectionLimit {
        if let oldest = connections.firstIndex(where: { !$0.isShut }) { connections[oldest].shut() }
        MHD_run(daemon)
      }
      var name = sockaddr_storage()
      name.ss_family = sa_family_t(AF_UNIX)
      // Closes the descriptor if it does not take it.
      withUnsafePointer(to: &name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          _ = MHD_add_connection(daemon, descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      }
      // libmicrohttpd 1.0 has only queued it, and the limit of connections needs their number.
      MHD_run(daemon)
    }
    run()
  }

  /// No descriptor is left: the listener stays readable, and polling it repeatedly would waste CPU time.
  private func restAccepting() {
    acceptSource?.interest = []
    loop.perform(after: .seconds(1), name: "metrics listener") { [weak self] _ in
      self?.acceptSource?.interest = .readable
    }
  }

  /// How many connections are open.
  var openConnections: Int { connections.count }

  private func connectionBegan(_ connection: OpaquePointer) -> Int {
    lastNumber += 1
    connections.append(Connection(number: lastNumber, descriptor: cmicrohttpd_connection_descriptor(connection)))
    return lastNumber
  }

  private func connectionEnded(_ number: Int) {
    connections.removeAll { $0.number == number }
  }

  private func run() {
    guard let daemon else { return }
    MHD_run(daemon)
    var milliseconds: UInt64 = 0
    // Connections have no timeout of libmicrohttpd's: only what can continue at once is left over.
    if MHD_get_timeout(daemon, &milliseconds) == .YES, !isRunPlanned {
      isRunPlanned = true
      loop.perform(name: "metrics connections") { [weak self] in
        self?.isRunPlanned = false
        self?.run()
      }
    }
    planEnd()
  }

  /// The oldest connection's time.
  ///
  /// One that has been shut down has none any more: a timer in the past would fire in each turn.
  private func planEnd() {
    guard let oldest = connections.first(where: { !$0.isShut }) else {
      timer?.invalidate()
      timer = nil
      return
    }
    let end = oldest.began.advanced(by: connectionTime)
    if let timer, timer.isValid {
      if timer.nextFireDate != end { timer.nextFireDate = end }
      return
    }
    let timer = Loop.Timer(at: end, name: "metrics connections") { [weak self] _ in self?.endOverdue() }
    self.timer = timer
    loop.add(timer)
  }

  private func endOverdue() {
    timer = nil
    let limit = Loop.Instant.now.advanced(by: .zero - connectionTime)
    for index in connections.indices where connections[index].began <= limit && !connections[index].isShut {
      connections[index].shut()
    }
    run()
  }

  // MARK: Answers

  private func answer(
    _ connection: OpaquePointer, path: String, method: String, state: UnsafeMutablePointer<UnsafeMutableRawPointer?>
  ) -> MHD_Result {
    guard method == "GET" || method == "HEAD" else {
      return queue(connection, 405, Self.page("only GET and HEAD are allowed\n", headers: [("Allow", "GET, HEAD")]))
    }
    // The first call is for the headers alone.
    if state.pointee == nil {
      state.pointee = UnsafeMutableRawPointer(bitPattern: 1)
      return .YES
    }
    switch Self.path(of: path) {
    case "/metrics":
      guard let page = metricsText() else { return .NO }
      return MHD_queue_response(connection, 200, page)
    case "/healthz":
      let problems = problems()
      if problems.isEmpty { return queue(connection, 200, Self.page("ok\n")) }
      return queue(connection, 503, Self.page(problems.map { $0 + "\n" }.joined()))
    default:
      return queue(connection, 404, Self.page("not found; try /metrics or /healthz\n"))
    }
  }

  /// The path of a request's target, which may have the absolute form (RFC 9112, section 3.2.2): `http://host:port/path`.
  ///
  /// Its host is ignored: there is one server for all names.
  private static func path(of target: String) -> Substring {
    let start = target.prefix(8).lowercased()
    guard let scheme = ["http://", "https://"].first(where: start.hasPrefix) else { return target[...] }
    return target.dropFirst(scheme.count).drop { $0 != "/" }
  }

  private func metricsText() -> OpaquePointer? {
    if let metricsPage, metricsPage.made.duration(to: .now) < Self.freshness { return metricsPage.page }
    // Connections that still send the old one hold it.
    if let metricsPage { MHD_destroy_response(metricsPage.page) }
    metricsPage = nil
    guard let page = Self.page(metrics(), type: ExpositionText.contentType) else { return nil }
    metricsPage = (page, .now)
    return page
  }

  private func queue(_ connection: OpaquePointer, _ status: UInt32, _ page: OpaquePointer?) -> MHD_Result {
    guard let page else { return .NO }
    defer { MHD_destroy_response(page) }
    return MHD_queue_response(connection, status, page)
  }

  private static func page(_ text: String, headers: [(String, String)] = []) -> OpaquePointer? {
    page(Array(text.utf8), type: "text/plain; charset=utf-8", headers: headers)
  }

  private static func page(_ body: [UInt8], type: String, headers: [(String, String)] = []) -> OpaquePointer? {
    var body = body
    guard let page = MHD_create_response_from_buffer(body.count, &body, .RESPMEM_MUST_COPY) else { return nil }
    for (key, value) in [("Content-Type", type), ("Cache-Control", "no-store"), ("Connection", "close")] + headers {
      MHD_add_response_header(page, key, value)
    }
    return page
  }
}
