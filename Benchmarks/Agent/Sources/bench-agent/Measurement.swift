import Glibc

/// What one run of hosts against a collector has shown.
struct Measurement {
  /// Not in the file, there twice, or not acknowledged.
  var lost: Int
  /// From sending until it can be read in the file, in milliseconds.
  var latencies: [Double]
  /// Processor time for one line, in microseconds.
  var microsecondsPerLine: Double
  /// Lines per second that arrived.
  var linesPerSecond: Double
  /// From the first of the hosts' connections until a report of each can be read in the file, in milliseconds.
  var firstReports: Double

  /// Connects all hosts, and sends a report of each; then sends `lines` reports, `rate` a second or as fast as they are taken, and waits
  /// until all have arrived.
  ///
  /// Times and costs are those of the lines behind each host's first: a daemon that accepts connections later than connect(2) returns
  /// would else be charged for them in its lines, and another one not.
  init(_ collector: Collector, lines: Int, rate: Double?, hosts count: Int = 1000) throws {
    let total = count + lines
    let arrivals = Arrivals(path: collector.output.path, capacity: total)
    var sent = [UInt64](repeating: 0, count: total)
    let begin = Arrivals.now()
    let hosts = try Hosts(
      count: count, path: collector.socketPath, frames: Hosts.unknownFrames, isAcknowledged: collector.acknowledges)
    var next = 0
    while next < count {
      sent[next] = Arrivals.now()
      hosts.send(next)
      next += 1
    }
    let limit = Arrivals.now() + 60_000_000_000
    while hosts.outstanding > 0 || arrivals.count < count, Arrivals.now() < limit { hosts.serve(milliseconds: 1) }
    firstReports = Double(Arrivals.now() - begin) / 1e6
    let cpu = collector.processorTime()
    let start = Arrivals.now()
    while next < total {
      let due =
        rate.map { min(total, count + Int(Double(Arrivals.now() - start) / 1e9 * $0) + 1) } ?? min(total, next + 100)
      while next < due {
        sent[next] = Arrivals.now()
        hosts.send(next)
        next += 1
      }
      hosts.serve(milliseconds: rate == nil ? 0 : 1)
      while rate == nil, hosts.isFull { hosts.serve(milliseconds: 1) }
    }
    let deadline = Arrivals.now() + 60_000_000_000
    while hosts.outstanding > 0 || arrivals.count < total, Arrivals.now() < deadline { hosts.serve(milliseconds: 5) }
    let seconds = Double(Arrivals.now() - start) / 1e9
    microsecondsPerLine = (collector.processorTime() - cpu) / Double(lines) * 1e6
    arrivals.stop()
    let arrived = arrivals.times.enumerated().filter { $0.element != 0 }
    latencies = arrived.filter { $0.offset >= count }.map { Double($0.element &- sent[$0.offset]) / 1e6 }
    lost = total - arrived.count + arrivals.twice + hosts.outstanding
    linesPerSecond = Double(latencies.count) / seconds
  }
}
