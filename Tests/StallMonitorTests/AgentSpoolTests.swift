import Foundation
import Glibc
import StallReport
import Synchronization
import TestSupport
import Testing

@testable import StallMonitor
@testable import stalld

/// What becomes of lines while the agent is away, fails, or is none: a sink with its thread, sockets and files.
struct AgentSpoolTests {
  /// A sink, and where it keeps what waits.
  private final class Host {
    let sink: OutputSink
    let tunings = TuningBox()

    init(_ agent: String, in directory: String?, service: String = "web", isShared: Bool = false) throws {
      let place = try directory.map {
        Spool.Location(
          directory: try StateDirectory(path: $0), prefix: AbandonedFiles.prefix("stallspool", service: [service]),
          isShared: isShared)
      }
      let counter = Counter()
      sink = OutputSink { counter.count.add(1, ordering: .relaxed) }
      let tunings = tunings
      try sink.start(name: "stall-agent") {
        AgentClient(
          sink: $0, path: agent,
          origin: StallReport.Report.Origin(
            processID: getpid(), executablePath: "/bin/web", serviceName: service, hostName: "vm"),
          location: place, box: tunings, configuration: StallMonitorConfiguration())
      }
      self.counter = counter
    }

    private let counter: Counter

    private final class Counter: Sendable { let count = Atomic<Int>(0) }
  }

  private static func line(_ number: Int, size: Int = 1000, dropped: UInt64 = 0) -> OutgoingLine {
    let head =
      #"{"@timestamp":"2026-01-01T00:00:00.000000000Z","event":{"name":"stall.ended","dropped":\#(dropped)},"number":\#(number),"text":""#
    let tail = "\"}\n"
    let filler = String(repeating: "x", count: max(0, size - head.utf8.count - tail.utf8.count))
    return OutgoingLine(Array((head + filler + tail).utf8), droppedBefore: dropped)
  }

  private static func send(_ numbers: some Sequence<Int>, size: Int = 1000, to sink: OutputSink) {
    for number in numbers { sink.write(line(number, size: size, dropped: sink.takeDropped())) }
  }

  private static func numbers(_ agent: TestAgent) -> [Int] { agent.lines.compactMap(number) }

  private static func lastNumber(_ agent: TestAgent) -> Int? { agent.lastLine.flatMap(number) }

  private static func number(_ line: Data) -> Int? {
    line.starts(with: Data("{\"@".utf8))
      ? ((try? JSONSerialization.jsonObject(with: line)) as? [String: Any])?["number"] as? Int : nil
  }

  private static func dropped(_ agent: TestAgent) -> Int {
    agent.lines.compactMap {
      let event = ((try? JSONSerialization.jsonObject(with: $0)) as? [String: Any])?["event"] as? [String: Any]
      return event?["dropped"] as? Int
    }.reduce(0, +)
  }

  private final class Directory {
    private let scratch: ScratchDirectory
    var path: String { scratch.path }
    init(in parent: URL = FileManager.default.temporaryDirectory) throws { scratch = try ScratchDirectory(in: parent) }
    var files: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }
    var bytes: Int {
      files.reduce(0) {
        $0 + ((try? FileManager.default.attributesOfItem(atPath: "\(path)/\($1)")[.size] as? Int) ?? 0)
      }
    }
  }

  /// Slower than the thread takes them, as stalls are.
  private static func sendSlowly(_ count: Int, size: Int, to sink: OutputSink) {
    for start in stride(from: 0, to: count, by: 100) {
      send(start..<min(start + 100, count), size: size, to: sink)
      while sink.hasBacklog { usleep(1000) }
    }
  }

  @Test func memoryAloneKeepsTheNewest() throws {
    let agent = try TestAgent()
    agent.close()
    let host = try Host(agent.path, in: nil)
    Self.sendSlowly(600, size: 1000, to: host.sink)
    try agent.comeBack()
    try agent.wait("the last line") { Self.lastNumber($0) == 599 }
    // The next line reports the rest.
    host.sink.write(Self.line(600, dropped: host.sink.takeDropped()))
    try agent.wait("another line") { Self.lastNumber($0) == 600 }
    let numbers = Self.numbers(agent)
    #expect(numbers.count == Spool.memoryLines + 1)
    #expect(numbers == Array((601 - numbers.count)...600))
    #expect(numbers.count + Self.dropped(agent) == 601)
    host.sink.close()
  }

  @Test func fileKeepsWhatTheMemoryDoesNot() throws {
    let agent = try TestAgent()
    agent.close()
    let directory = try Directory()
    let host = try Host(agent.path, in: directory.path)
    Self.sendSlowly(1500, size: 2000, to: host.sink)
    #expect(directory.files.count == 1)
    try agent.comeBack()
    try agent.wait("the last line") { Self.lastNumber($0) == 1499 }
    #expect(Self.numbers(agent) == Array(0..<1500))
    #expect(Self.dropped(agent) == 0)
    try agent.wait("an empty directory") { _ in directory.files.isEmpty }
    host.sink.close()
    #expect(directory.files.isEmpty)
  }

  /// Goes around the ring: the oldest lines are dropped, and no more than necessary.
  @Test func fullFileDropsTheOldest() throws {
    let agent = try TestAgent()
    agent.close()
    let directory = try Directory()
    let host = try Host(agent.path, in: directory.path)
    Self.sendSlowly(1200, size: 7777, to: host.sink)
    usleep(200_000)
    #expect(directory.bytes <= 4 << 20)
    try agent.comeBack()
    try agent.wait("the last line") { Self.lastNumber($0) == 1199 }
    host.sink.write(Self.line(1200, dropped: host.sink.takeDropped()))
    try agent.wait("another line") { Self.lastNumber($0) == 1200 }
    let numbers = Self.numbers(agent)
    #expect(numbers == Array((1201 - numbers.count)...1200))
    #expect(numbers.count + Self.dropped(agent) == 1201)
    // The ring's lines, and a MiB of memory.
    #expect(numbers.count >= SpoolFormat.ringSize / 7785 + Spool.memoryBytes / 7777 - 2)
    host.sink.close()
  }

  @Test func nextProcessHandsOverWhatTheLastOneKept() throws {
    let agent = try TestAgent()
    agent.close()
    let directory = try Directory()
    let first = try Host(agent.path, in: directory.path)
    Self.sendSlowly(400, size: 900, to: first.sink)
    let begin = Date.now
    first.sink.close()
    #expect(Date.now.timeIntervalSince(begin) < 5, "nobody is waited for who is not there")
    #expect(first.sink.isSettled)
    #expect(directory.files.count == 1)
    try agent.comeBack()
    // Two at once: one of them hands it over.
    let hosts = [try Host(agent.path, in: directory.path), try Host(agent.path, in: directory.path)]
    try agent.wait("the last line") { Self.numbers($0).count >= 400 }
    try agent.wait("an empty directory") { _ in directory.files.isEmpty }
    for host in hosts { host.sink.close() }
    #expect(Self.numbers(agent) == Array(0..<400))
  }

  @Test(arguments: 0..<9)
  func foreignFilesAreLeftAlone(kind: Int) throws {
    let directory = try Directory()
    let name = AbandonedFiles.prefix("stallspool", service: ["web"]) + "1-0000"
    let path = "\(directory.path)/\(name)"
    let lines = (0..<3).map { Self.line($0).bytes }
    let records = lines.flatMap(SpoolFormat.record)
    var file = SpoolFormat.head(head: 0, used: records.count)
    file += [UInt8](repeating: 0, count: SpoolFormat.headSize - file.count) + records
    var whole = 0
    switch kind {
    case 0: file = []
    case 1: file = Array("no spool at all, but long enough to be looked at more closely".utf8)
    case 2: file[8] = 2
    case 3: file[16] = 1
    case 4: file = SpoolFormat.head(head: 0, used: Int(UInt32.max))
    // Ends too early.
    case 5: (file, whole) = (Array(file.dropLast(10)), 2)
    // Another length, another byte.
    case 6: (file[SpoolFormat.headSize + 1008], whole) = (0xff, 1)
    case 7: (file[SpoolFormat.headSize + 2 * 1008 + 500], whole) = (0x0a, 2)
    default: file += [UInt8](repeating: 7, count: 5 << 20)
    }
    try Data(file).write(to: URL(fileURLWithPath: path))
    let agent = try TestAgent()
    let host = try Host(agent.path, in: directory.path)
    host.sink.write(Self.line(99))
    try agent.wait("its own line") { Self.lastNumber($0) == 99 }
    host.sink.close()
    #expect(Self.numbers(agent) == Array(0..<whole) + [99])
    #expect(directory.files.isEmpty == (whole > 0))
  }

  @Test func othersFilesAreNotTaken() throws {
    let directory = try Directory()
    let name = AbandonedFiles.prefix("stallspool", service: ["web"])
    symlink("/etc/passwd", "\(directory.path)/\(name)link")
    mkfifo("\(directory.path)/\(name)fifo", 0o600)
    mkdir("\(directory.path)/\(name)directory", 0o700)
    let agent = try TestAgent()
    let host = try Host(agent.path, in: directory.path)
    host.sink.write(Self.line(1))
    try agent.wait("its own line") { !Self.numbers($0).isEmpty }
    host.sink.close()
    #expect(Self.numbers(agent) == [1])
    #expect(directory.files.count == 3)
  }

  /// An agent that is stuck: the end does not wait for it, and nothing is lost.
  @Test func endDoesNotWaitForAnAgentThatDoesNotRead() throws {
    var manners = TestAgent.Manners()
    manners.reads = false
    let agent = try TestAgent(manners)
    let directory = try Directory()
    let host = try Host(agent.path, in: directory.path)
    Self.sendSlowly(250, size: 4000, to: host.sink)
    #expect(!host.sink.isSettled)
    let begin = Date.now
    host.sink.close()
    #expect(Date.now.timeIntervalSince(begin) >= 0.9)
    #expect(Date.now.timeIntervalSince(begin) < 6)
    #expect(directory.files.count == 1)
    agent.change { $0.reads = true }
    let next = try Host(agent.path, in: directory.path)
    try agent.wait("all lines") { Set(Self.numbers($0)).count == 250 }
    next.sink.close()
  }

  @Test func endWaitsForTheAcknowledgements() throws {
    let agent = try TestAgent()
    let directory = try Directory()
    let host = try Host(agent.path, in: directory.path)
    Self.send(0..<200, to: host.sink)
    host.sink.close()
    #expect(host.sink.isSettled)
    #expect(directory.files.isEmpty)
    try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
    #expect(Self.numbers(agent) == Array(0..<200))
    #expect(agent.lines.last == Data("{\"goodbye\":{}}".utf8))
  }

  @Test(arguments: [
    "HTTP/1.1 400 Bad Request\r\n\r\n", "[1]\n", "{\"acknowledged\":1000000}\n", "{\"acknowledged\":-1}\n",
    "{\"acknowledged\":1e99}\n", "{\"settings\":7}\n", "nested", "\u{0}\u{0}\u{0}\n", "\n", "100 MB",
  ])
  func answersOfNoAgentAcknowledgeNothing(what: String) throws {
    let garbage =
      switch what {
      case "nested": [UInt8](repeating: UInt8(ascii: "["), count: 60_000) + [10]
      case "100 MB": [UInt8](repeating: 0x20, count: 100 << 20)
      default: Array(what.utf8)
      }
    var manners = TestAgent.Manners()
    (manners.garbage, manners.acknowledges) = (garbage, false)
    let agent = try TestAgent(manners)
    let host = try Host(agent.path, in: nil)
    Self.send(0..<5, to: host.sink)
    usleep(50_000)
    #expect(!host.sink.isSettled)
    // A real one takes its place.
    agent.change { $0 = TestAgent.Manners() }
    agent.hangUp()
    host.sink.write(Self.line(5))
    try agent.wait("all lines") { Set(Self.numbers($0)) == Set(0...5) && host.sink.isSettled }
    host.sink.close()
    #expect(agent.connections.count <= 12, "it is not tried all the time")
  }

  /// An agent that takes nobody in says so and hangs up, each time; one that talks without an end is left alone, too.
  @Test(arguments: [
    (1, #"{"error":"there are 4096 connections already"}"#), (1, "{}"), (100_000, "{}"),
    (100_000, #"{"acknowledged":0}"#),
  ])
  func uselessAgentIsTriedAtGrowingIntervals(count: Int, line: String) throws {
    var manners = TestAgent.Manners()
    manners.garbage = Array(String(repeating: line + "\n", count: count).utf8)
    manners.hangsUp = true
    let agent = try TestAgent(manners)
    let host = try Host(agent.path, in: nil)
    usleep(2_500_000)
    // After 0.1, 0.2, 0.4, 0.8 s; without the doubling there would be 25.
    #expect((2...6).contains(agent.connections.count), "\(agent.connections.count)")
    host.sink.close()
  }

  /// A host that closes all descriptors, and has others by the same numbers before the thread looks.
  @Test func wakerReportsThatItsDescriptorIsGone() throws {
    let waker = PollWaker()
    let inner = try #require(waker.reset())
    #expect(waker.wake())
    _ = waker.reset()
    let stranger = open("/dev/null", O_RDONLY | O_CLOEXEC)
    dup2(stranger, inner)
    #expect(!waker.wake())
    #expect(waker.isWoken)
    #expect(waker.reset() != inner, "the stranger's stays open")
    #expect(waker.wake())
    close(stranger)
    close(inner)
  }

  /// A service that ends repeatedly while there is no agent.
  @Test func filesAreLimited() throws {
    let agent = try TestAgent()
    agent.close()
    let directory = try Directory()
    for number in 0..<(Spool.fileLimit + 3) {
      let host = try Host(agent.path, in: directory.path)
      host.sink.write(Self.line(number))
      host.sink.close()
      #expect(host.sink.isSettled == (number < Spool.fileLimit))
    }
    #expect(directory.files.count == Spool.fileLimit)
    try agent.comeBack()
    let next = try Host(agent.path, in: directory.path)
    try agent.wait("all lines") { Set(Self.numbers($0)).count == Spool.fileLimit && directory.files.isEmpty }
    next.sink.close()
  }

  /// If others need the space, as in `/dev/shm`.
  @Test func lessIsKeptInASharedPlace() throws {
    let agent = try TestAgent()
    agent.close()
    let directory = try Directory(in: URL(fileURLWithPath: "/dev/shm"))
    for number in 0..<6 {
      let host = try Host(agent.path, in: directory.path, isShared: true)
      if number == 3 { Self.sendSlowly(400, size: 7777, to: host.sink) } else { host.sink.write(Self.line(number)) }
      host.sink.close()
      #expect(number == 3 || host.sink.isSettled == (number < 4))
    }
    #expect(directory.files.count == 4)
    #expect(directory.bytes <= (1 << 20) + 3 * 8192, "one of them is full")
    try agent.comeBack()
    let next = try Host(agent.path, in: directory.path, isShared: true)
    try agent.wait("all lines") { _ in directory.files.isEmpty }
    next.sink.close()
    #expect(Set(Self.numbers(agent)).isSuperset(of: [0, 1, 2] + Array(290..<400)))
  }

  /// Samples are not in the file, and lie between lines that are: none is lost when a connection ends.
  @Test func whatIsInMemoryAloneIsThereAsWell() throws {
    let directory = try Directory()
    let spool = Spool(in: Spool.Location(directory: try StateDirectory(path: directory.path), prefix: "spool-"))
    spool.append(Self.line(0))
    spool.append(Self.line(1), isDetail: true)
    spool.append(Self.line(2))
    spool.keep()
    #expect(directory.files.count == 1)
    #expect((0...3).map { UInt64($0) }.map(spool.contains) == [true, true, true, false])
    spool.acknowledge(through: 0)
    #expect((0...3).map { UInt64($0) }.map(spool.contains) == [false, true, true, false])
  }

  /// What a service makes of a line of the agent: its settings, and what it cannot use.
  private func read(_ text: String, over current: Tuning = Tuning()) throws -> (Tuning, [String]) {
    guard case .settings(let value, let json) = AgentMessage(Array(text.utf8)) else { throw CancellationError() }
    var configuration = StallMonitorConfiguration()
    configuration.actions = [.abort(after: .seconds(5))]
    var problems: [String] = []
    let tuning = Tuning(value, of: json, current: current, configuration: configuration, problems: &problems)
    return (tuning, problems)
  }

  @Test("each setting of a service is in the protocol, reaches the service and takes effect")
  func everySettingOfAServiceIsRead() throws {
    func values(_ value: Any) -> [(name: String, isNil: Bool)] {
      Mirror(reflecting: value).children.map { ($0.label ?? "", "\($0.value)" == "nil") }
    }
    let service = AgentSettings.ServiceOverride(
      match: "web", isEnabled: false, captures: .blockedOnly, threshold: .milliseconds(1500), repeatWindow: .zero,
      budget: 7, sampling: .milliseconds(20), threads: .all, symbolication: .host)
    #expect(values(service).filter(\.isNil).map(\.name) == [])
    // The protocol has kept the earlier names, which services of all versions read.
    let keys = AgentSettings.ServiceOverride.keys.map { $0.earlierName ?? $0.name }.filter { $0 != "match" }
    #expect(keys.count == values(service).count - 1)
    let object = try JSONSerialization.jsonObject(with: Data(service.json.utf8)) as? [String: Any]
    #expect(object?.keys.sorted() == keys.sorted())
    let (tuning, problems) = try read("{\"settings\":\(service.json)}")
    #expect(problems == [])
    #expect(values(tuning).filter(\.isNil).map(\.name) == [])
    #expect(values(tuning).count == keys.count)
    #expect(
      tuning
        == Tuning(
          isEnabled: false, captures: .blockedOnly, threshold: .milliseconds(1500), repeatWindow: .zero, budget: 7,
          sampling: .milliseconds(20), otherThreads: .all, symbolication: .host))
    // Each changes what is in force.
    let configuration = StallMonitorConfiguration()
    func plan(_ tuning: Tuning) -> [String] {
      Mirror(reflecting: WatchPlan(configuration, tuning, sinkNames: true)).children.map { "\($0.value)" }
    }
    let (plain, changed) = (plan(Tuning()), plan(tuning))
    #expect(zip(plain, changed).allSatisfy { $0 != $1 } && plain.count == keys.count)
    let page = try String(contentsOf: Repository.file("Documentation/AgentProtocol.md"), encoding: .utf8)
    let row = try #require(page.split(separator: "\n").first { $0.hasPrefix("| `{\"settings\"") })
    for key in keys { #expect(row.contains("`\(key)`"), "\(key)") }
  }

  @Test("a service accepts what the agent accepts: the limits of each duration")
  func limitsOfDurationsReachAService() throws {
    func limits(
      _ range: ClosedRange<Duration>, _ make: (Duration) -> AgentSettings.ServiceOverride,
      _ value: (Tuning) -> Duration?
    ) throws {
      for limit in [range.lowerBound, range.upperBound] {
        let (tuning, problems) = try read("{\"settings\":\(make(limit).json)}")
        #expect(problems == [] && value(tuning) == limit, "\(limit)")
      }
    }
    try limits(StallMonitorConfiguration.allowedRepeatWindow, { .init(repeatWindow: $0) }, \.repeatWindow)
    try limits(StallMonitorConfiguration.allowedSampling, { .init(sampling: $0) }, \.sampling)
    // A threshold has to be shorter than the time after which this service aborts.
    try limits(.milliseconds(1)...(.seconds(4)), { .init(threshold: $0) }, \.threshold)
  }

  @Test func settingsAreReadStrictly() throws {
    let all =
      #"{"settings":{"enabled":false,"captures":"blocked-only","threshold":"1.5s","repeat_window":"0s","budget":0,"threads":"all","symbolication":"host"}}"#
    let (tuning, none) = try read(all)
    #expect(none.isEmpty)
    #expect(
      tuning
        == Tuning(
          isEnabled: false, captures: .blockedOnly,
          threshold: .milliseconds(1500), repeatWindow: .zero, budget: 0, otherThreads: .all, symbolication: .host))
    #expect(try read(#"{"settings":{}}"#, over: tuning).0 == Tuning())
    let bad = [
      #""enabled":"false""#, #""enabled":0"#, #""captures":"none""#, #""captures":true"#,
      #""threshold":"0.5ms""#, #""threshold":250"#, #""threshold":"6s""#, #""threshold":null"#,
      #""repeat_window":"2h""#,
      #""budget":"60""#, #""budget":1.5"#, #""budget":10001"#, #""threads":"some""#, #""threads":[]"#,
      #""symbolication":true"#, #""symbolication":"\u001b[2J""#,
      "\"symbolication\":\"\u{9b}31m\u{202e}\u{7f}\"",
    ]
    for member in bad {
      let (kept, problems) = try read("{\"settings\":{\(member)}}", over: tuning)
      #expect(problems.count == 1, "\(member)")
      #expect(problems.first?.contains("allowed: ") == true)
      #expect(problems.first?.unicodeScalars.allSatisfy(\.isPrintable) == true)
      let key = try #require(member.split(separator: "\"").first)
      #expect(problems.first?.hasPrefix(key) == true)
      #expect(kept != Tuning(), "what is in force stays")
    }
  }
}
