import LoopEngine

/// Where lines get names on their way from the hosts to the outputs, and are never held up for long.
///
/// Lines of one process keep their order. If names take too long, or too many lines wait for them, lines go on as they came;
/// `stalld symbolicate` can still name them. Belongs to the agent's loop.
final class NamingStage {
  private struct Waiting {
    var delivery: TransitLine
    var since: Loop.Instant
  }

  private let loop: Loop
  private let timeLimit: Duration
  private let forward: ([TransitLine]) -> Void
  private var thread: NamingThread!
  private var waiting: [UInt64: Waiting] = [:]
  private var order: [UInt64] = []
  private var first = 0
  private var waitingOf: [Int32: Int] = [:]
  private var nextNumber: UInt64 = 1
  private var timer: Loop.Timer?
  private(set) var unnamed: UInt64 = 0

  /// Lines that may wait for names.
  private static let backlogLimit = 2000

  /// `forward` gets lines, and what only keeps its place, in an order that is each process's own.
  init(loop: Loop, settings: AgentSettings.Symbolication, forward: @escaping ([TransitLine]) -> Void) throws {
    self.loop = loop
    timeLimit = settings.timeLimit
    self.forward = forward
    let stage = UncheckedReference(self)
    thread = try NamingThread(settings: settings) { items in
      loop.perform(name: "lines with names") { stage.object?.take(items) }
    }
  }

  var counters: NamingThread.Counters { thread.counters }
  var backlog: Int { waiting.count }

  func submit(_ deliveries: [TransitLine]) {
    var direct: [TransitLine] = []
    var items: [NamingThread.Item] = []
    for delivery in deliveries {
      let hasEarlier = waitingOf[delivery.process] != nil
      let wantsNames = delivery.line.map { !$0.bytes.isEmpty && waiting.count < Self.backlogLimit } ?? false
      guard hasEarlier || wantsNames else {
        if delivery.line != nil { unnamed += 1 }
        direct.append(shortened(delivery))
        continue
      }
      let number = nextNumber
      nextNumber += 1
      waiting[number] = Waiting(delivery: delivery, since: .now)
      order.append(number)
      waitingOf[delivery.process, default: 0] += 1
      let line = delivery.line ?? ReportLine.none
      items.append(NamingThread.Item(number: number, line: line))
    }
    if !direct.isEmpty { forward(direct) }
    guard !items.isEmpty else { return }
    thread.submit(items)
    watchTime()
  }

  private func take(_ items: [NamingThread.Item]) {
    var result: [TransitLine] = []
    for item in items {
      // Nil if it has gone on without names.
      guard var delivery = finish(item.number) else { continue }
      if delivery.line != nil { delivery.line = item.line }
      result.append(delivery)
    }
    trimOrder()
    if !result.isEmpty { forward(result) }
  }

  private func finish(_ number: UInt64) -> TransitLine? {
    guard let entry = waiting.removeValue(forKey: number) else { return nil }
    let process = entry.delivery.process
    waitingOf[process, default: 1] -= 1
    if waitingOf[process] == 0 { waitingOf[process] = nil }
    return entry.delivery
  }

  private func trimOrder() {
    while first < order.count, waiting[order[first]] == nil { first += 1 }
    if first == order.count {
      order.removeAll(keepingCapacity: true)
      first = 0
    } else if first > 4096 {
      order.removeFirst(first)
      first = 0
    }
  }

  private func watchTime() {
    guard timer == nil, first < order.count, let oldest = waiting[order[first]] else { return }
    let stage = UncheckedReference(self)
    timer = loop.schedule(
      after: max(.milliseconds(1), timeLimit - oldest.since.duration(to: .now)), name: "names take too long"
    ) { _ in
      guard let stage = stage.object else { return }
      stage.timer = nil
      stage.trimOrder()
      guard stage.first < stage.order.count, let oldest = stage.waiting[stage.order[stage.first]] else { return }
      if oldest.since.duration(to: .now) >= stage.timeLimit { stage.goOnWithoutNames() }
      stage.watchTime()
    }
  }

  private func shortened(_ delivery: TransitLine) -> TransitLine {
    var result = delivery
    result.line?.shorten()
    return result
  }

  /// Forwards all that waits as it came, in order.
  func goOnWithoutNames() {
    _ = thread.withdraw()
    let numbers = order[first...]
    order = []
    first = 0
    let deliveries = numbers.compactMap { finish($0).map(shortened) }
    unnamed += UInt64(deliveries.count { $0.line != nil })
    if !deliveries.isEmpty { forward(deliveries) }
  }

  /// Gives names a last while, and then goes on without.
  func stop() {
    timer?.invalidate()
    goOnWithoutNames()
    thread.stop()
  }
}
