import DescriptorIO
import Glibc
import StallCapture
import StallMonitor

/// Names the functions in lines that come over a socket, unit by unit: one that takes long waits while the others have their turn.
final class NameWorker {
  /// What has come of one unit, in order.
  private struct Lane {
    var jobs: [Job] = []
    /// Nanoseconds that its lines took of late.
    var used = 0.0
    var time: UInt64 = 0

    /// What is left of that: half a second later it counts half.
    func used(at now: UInt64) -> Double { used * exp2(-Double(now &- time) / 5e8) }
  }

  private struct Job {
    var request: NamingMessage.Request
    var tries = 0
  }

  private var files: BuildFiles!
  private var completion: ReportCompletion!
  private let slice: UInt64
  /// What other users' files may take; nil for as much as others.
  private let sliceOfStrangers: UInt64?
  private var lanes: [String: Lane] = [:]
  private var waiting = 0
  private var input = NamingMessage.Input(longest: NamingMessage.longestRequest)
  private var output: [UInt8] = []
  /// Which line is being read for, and what was said of that last.
  private var current: UInt64 = 0
  private var said: (number: UInt64, isTrusted: Bool, time: UInt64)?

  /// Each one has twice the time of the one before.
  private static let triesOfLine = 3
  private static let laneLimit = 1024
  /// How often `begun` is repeated for one line at most, and not for each frame.
  private static let sayingInterval: UInt64 = 20_000_000
  private static let outputSize = 32 << 10

  init(cache: Int, debugDirectories: [String], slice: UInt64, sliceOfStrangers: UInt64?, canLookUp: Bool) {
    (self.slice, self.sliceOfStrangers) = (slice, sliceOfStrangers)
    files = BuildFiles(byteBudget: cache, debugDirectories: debugDirectories) { [unowned self] in say(isTrusted: $0) }
    completion = ReportCompletion { [unowned self] in
      canLookUp ? files.look(up: $0, modulePath: $1, offset: $2) : nil
    }
  }

  /// Works until the agent closes the socket.
  func run() {
    while true {
      if waiting == 0 { flush() }
      guard read() else { return }
      if let lane = next() { work(on: lane) }
    }
  }

  // MARK: What comes

  /// Waits if there is nothing to do; false at the end.
  private func read() -> Bool {
    if waiting > 0 {
      var poller = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
      guard poll(&poller, 1, 0) > 0 else { return true }
    }
    return withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 1) { buffer in
      let count = Glibc.read(0, buffer.baseAddress, buffer.count)
      if count < 0, errno == EINTR { return true }
      guard count > 0 else { return false }
      input.append(buffer[..<count])
      while let message = input.next() {
        guard let request = NamingMessage.Request(message) else { return false }
        lanes[request.lane, default: Lane()].jobs.append(Job(request: request))
        waiting += 1
      }
      return !input.isBroken
    }
  }

  /// The one that took least of late.
  private func next() -> String? {
    let now = MonotonicClock.now()
    return lanes.filter { !$0.value.jobs.isEmpty }.min { $0.value.used(at: now) < $1.value.used(at: now) }?.key
  }

  // MARK: Work

  private func work(on name: String) {
    guard var lane = lanes[name], var job = lane.jobs.first else { return }
    let request = job.request
    let begin = MonotonicClock.now()
    current = request.number
    let slice = slice << UInt64(job.tries)
    files.begin(
      NamingClient(process: request.process, user: request.user, controlGroup: request.controlGroup),
      until: begin + slice, ofStrangers: begin + min(slice, sliceOfStrangers ?? slice))
    let outcome = completion.complete(request.line)
    files.end()
    let end = MonotonicClock.now()
    (lane.used, lane.time) = (lane.used(at: end) + Double(end - begin), end)
    if files.isCutOfStrangers, sliceOfStrangers != nil {
      finishFirst(&lane)
      output += NamingMessage.Answer(kind: .cut, number: request.number).bytes
    } else if files.isIncomplete, job.tries + 1 < Self.triesOfLine {
      job.tries += 1
      lane.jobs[0] = job
    } else {
      finishFirst(&lane)
      answer(request, outcome)
    }
    lanes[name] = lane
    if lanes.count > Self.laneLimit { lanes = lanes.filter { !$0.value.jobs.isEmpty } }
  }

  private func finishFirst(_ lane: inout Lane) {
    lane.jobs.removeFirst()
    waiting -= 1
  }

  private func answer(_ request: NamingMessage.Request, _ outcome: ReportCompletion.Outcome) {
    var answer = NamingMessage.Answer(kind: .unchanged, number: request.number)
    (answer.hits, answer.misses) = (UInt32(clamping: files.hits), UInt32(clamping: files.misses))
    answer.cacheBytes = UInt64(files.bytes)
    answer.flag = files.hits == 0 && files.misses > 0
    if case .completed(let line, _) = outcome, line.count < Ingest.longestReport {
      (answer.kind, answer.line) = (.completed, line)
    }
    output += answer.bytes
    if output.count > Self.outputSize { flush() }
  }

  private func say(isTrusted: Bool) {
    let now = MonotonicClock.now()
    if let said, said.number == current, said.isTrusted == isTrusted, now - said.time < Self.sayingInterval { return }
    said = (current, isTrusted, now)
    output += NamingMessage.Answer(kind: .begun, number: current, flag: isTrusted).bytes
    flush()
  }

  private func flush() {
    // The agent has gone.
    if output.withUnsafeBytes({ FileBytes.write($0, to: 0) }) != 0 { exit(0) }
    output.removeAll(keepingCapacity: true)
  }
}
