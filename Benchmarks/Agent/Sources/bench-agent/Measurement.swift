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

  /// Sends reports, `rate` a second or as fast as they are taken, and waits until all have arrived.
  init(_ collector: Collector, lines total: Int, rate: Double?, hosts count: Int = 1000) throws {
    let hosts = try Hosts(
      count: count, path: collector.socketPath, frames: Hosts.unknownFrames, isAcknowledged: collector.acknowledges)
    let arrivals = Arrivals(path: collector.output.path, capacity: total)
    var sent = [UInt64](repeating: 0, count: total)
    let cpu = collector.processorTime()
    let start = Arrivals.now()
    var next = 0
    while next < total {
      let due = rate.map { min(total, Int(Double(Arrivals.now() - start) / 1e9 * $0) + 1) } ?? min(total, next + 100)
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
    microsecondsPerLine = (collector.processorTime() - cpu) / Double(total) * 1e6
    arrivals.stop()
    latencies = arrivals.times.enumerated().compactMap { $1 == 0 ? nil : Double($1 &- sent[$0]) / 1e6 }
    lost = total - latencies.count + arrivals.twice + hosts.outstanding
    linesPerSecond = Double(latencies.count) / seconds
  }
}
