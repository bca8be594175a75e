import BenchmarkSupport
import Foundation
import Glibc

// What the agent takes, and what it costs, beside rsyslog with the same lines. The daemon under measurement has one processor for
// itself; the hosts, and the one who reads along, have the other.

guard (3...4).contains(CommandLine.arguments.count) else {
  FileHandle.standardError.write(Data("usage: bench-agent STALLD MARKDOWN-FILE [SECONDS]\n".utf8))
  exit(64)
}
let executable = CommandLine.arguments[1]
// Before it has measured for minutes.
requirePrograms([
  "/usr/sbin/rsyslogd": "rsyslog", "/usr/bin/taskset": "util-linux",
])
guard access(executable, X_OK) == 0 else { endBenchmark("\(executable) not found: run `make agent`") }
guard sysconf(Int32(_SC_NPROCESSORS_ONLN)) > 1 else { endBenchmark("it needs two processors") }
let seconds = CommandLine.arguments.count > 3 ? Double(CommandLine.arguments[3]) ?? 20 : 20
var rows: [BenchmarkRow] = []

/// One run of each daemon, each in a process of its own.
@MainActor func both(_ body: (Collector) throws -> Measurement) throws -> (agent: Measurement, rsyslog: Measurement) {
  let agent = try AgentProcess(executable: executable, processor: 0)
  let one = try body(agent)
  agent.stop()
  let rsyslog = try RsyslogProcess(processor: 0)
  let other = try body(rsyslog)
  rsyslog.stop()
  return (one, other)
}

@MainActor func add(
  _ benchmark: String, _ subject: String, _ unit: String, _ pair: (agent: Measurement, rsyslog: Measurement),
  atMost bar: Double? = nil, _ value: (Measurement) -> Double
) {
  let (agent, rsyslog) = (value(pair.agent), value(pair.rsyslog))
  rows.append(BenchmarkRow(benchmark: benchmark, subject: "\(subject), rsyslog", value: rsyslog, unit: unit, ratio: 1))
  rows.append(BenchmarkRow(benchmark: benchmark, subject: subject, value: agent, unit: unit, ratio: agent / rsyslog))
  if let bar {
    rows.append(
      BenchmarkRow(
        benchmark: benchmark, subject: "\(subject), of rsyslog's", value: agent / rsyslog, unit: "times", bar: bar))
  }
}

runBenchmark {
  do {
    let agent = try AgentProcess(executable: executable, processor: 0)
    sleep(2)
    let before = agent.wakeUps()
    sleep(10)
    rows.append(
      BenchmarkRow(
        benchmark: "idle", subject: "wake-ups in 10 s", value: Double(agent.wakeUps() - before), unit: "", bar: 0))
    rows.append(
      BenchmarkRow(
        benchmark: "idle", subject: "resident memory", value: agent.memory("VmRSS") / 1024, unit: "MiB", bar: 20))
    let calm = try Measurement(agent, lines: Int(1000 * seconds), rate: 1000)
    rows.append(
      BenchmarkRow(
        benchmark: "1000 reports a second", subject: "lost or doubled", value: Double(calm.lost), unit: "", bar: 0))
    rows.append(
      BenchmarkRow(
        benchmark: "1000 reports a second", subject: "p50 to the file", value: calm.latencies.percentile(0.5),
        unit: "ms")
    )
    rows.append(
      BenchmarkRow(
        benchmark: "1000 reports a second", subject: "p99 to the file", value: calm.latencies.percentile(0.99),
        unit: "ms", bar: 10))
    agent.stop()
  }

  let steady = "10000 reports a second"
  var largest = 0.0
  let loaded = try both { collector in
    let result = try Measurement(collector, lines: Int(10_000 * seconds), rate: 10_000)
    if collector.acknowledges { largest = collector.memory("VmHWM") / 1024 }
    return result
  }
  rows.append(
    BenchmarkRow(benchmark: steady, subject: "lost or doubled", value: Double(loaded.agent.lost), unit: "", bar: 0))
  rows.append(BenchmarkRow(benchmark: steady, subject: "largest resident memory", value: largest, unit: "MiB"))
  add(steady, "processor time per line", "us", loaded, atMost: 1.5, \.microsecondsPerLine)
  add(steady, "p99 to the file", "ms", loaded) { $0.latencies.percentile(0.99) }

  // The inverse, so that the bar is a maximum.
  let fastest = try both { try Measurement($0, lines: Int(15_000 * seconds), rate: nil, hosts: 100) }
  rows.append(
    BenchmarkRow(
      benchmark: "as fast as taken", subject: "lost or doubled", value: Double(fastest.agent.lost), unit: "", bar: 0))
  add("as fast as taken", "time per line", "us", fastest, atMost: 1) { 1e6 / $0.linesPerSecond }

  for rate in [1000.0, 5000] {
    let pair = try both { collector in
      let loops = try BusyLoops(2, processor: 0)
      defer { withExtendedLifetime(loops) {} }
      return try Measurement(collector, lines: Int(rate * seconds / 2), rate: rate)
    }
    let benchmark = "\(Int(rate)) a second, two busy loops"
    rows.append(
      BenchmarkRow(benchmark: benchmark, subject: "lost or doubled", value: Double(pair.agent.lost), unit: "", bar: 0))
    add(benchmark, "p50 to the file", "ms", pair) { $0.latencies.percentile(0.5) }
    add(benchmark, "p99 to the file", "ms", pair, atMost: 3) { $0.latencies.percentile(0.99) }
    add(benchmark, "1000 services connect and report at once", "ms", pair, \.firstReports)
  }

  var status = stat()
  stat(executable, &status)
  rows.append(
    BenchmarkRow(
      benchmark: "binary", subject: "static standard library, stripped", value: Double(status.st_size) / 1e6,
      unit: "MB",
      bar: 25))
  var results = BenchmarkTable()
  results.add(rows)
  try results.writeJSON("agent")

  // The same for people.
  func text(_ value: Double?) -> String { value.map { String(format: "%.4g", $0) } ?? "" }
  var table = MarkdownTable(["", "", "measured", "target", "met"])
  for row in rows {
    table.add([
      row.benchmark, row.subject, "\(text(row.value)) \(row.unit)", text(row.bar),
      row.pass.map { $0 ? "yes" : "**no**" } ?? "",
    ])
  }
  try """
  # The cost of the agent

  `make bench-agent` measures the installed binary on one processor, with its default settings except
  for the file's size and the limits of one user, because one user plays all services. A thousand
  services (a hundred where they send as fast as lines are accepted) and one reader run on the other
  processor. Each report has a stack of twenty frames, about 2 KB, of a program that is not on this
  machine, so the agent finds no names for its frames. A report has arrived when it can be read in the
  file. Times and costs are those of the reports behind each service's first; beside busy loops, a row
  says how long the connections and the first reports of all services take. "Lost or doubled" means:
  not in the file, in it twice, or not acknowledged. rsyslog gets the same lines in the same run:
  imptcp to omfile, each line unchanged.

  \(table.text)
  """.write(toFile: CommandLine.arguments[2], atomically: true, encoding: .utf8)
}
