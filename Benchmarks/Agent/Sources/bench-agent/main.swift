import Foundation
import Glibc

// What the agent takes, and what it costs. The agent has one processor for itself; the hosts, and the one who
// reads along, have the other.

guard (3...4).contains(CommandLine.arguments.count) else {
  FileHandle.standardError.write(Data("usage: bench-agent STALLD MARKDOWN-FILE [SECONDS]\n".utf8))
  exit(64)
}
let executable = CommandLine.arguments[1]
let seconds = CommandLine.arguments.count > 3 ? Double(CommandLine.arguments[3]) ?? 60 : 60
/// Sends reports at a rate, and waits until the agent has told that it has them all.
func run(rate: Int, hosts count: Int, seconds: Double, agent: AgentProcess) throws -> (
  lost: Int, latencies: [Double], cpu: Double
) {
  let total = Int(Double(rate) * seconds)
  let hosts = try Hosts(count: count, path: agent.socketPath, frames: Hosts.unknownFrames)
  let arrivals = Arrivals(path: agent.output.path, capacity: total)
  var sent = [UInt64](repeating: 0, count: total)
  let cpu = agent.processorTime()
  let start = Arrivals.now()
  var next = 0
  while next < total {
    let due = min(total, Int(Double(Arrivals.now() - start) / 1e9 * Double(rate)) + 1)
    while next < due {
      sent[next] = Arrivals.now()
      hosts.send(next)
      next += 1
    }
    hosts.serve(milliseconds: 1)
  }
  let deadline = Arrivals.now() + 30_000_000_000
  while hosts.outstanding > 0 || arrivals.count < total, Arrivals.now() < deadline { hosts.serve(milliseconds: 10) }
  let used = (agent.processorTime() - cpu) / seconds
  arrivals.stop()
  let latencies = arrivals.times.enumerated().compactMap { $1 == 0 ? nil : Double($1 &- sent[$0]) / 1e6 }
  return (total - latencies.count + arrivals.twice + hosts.outstanding, latencies, used)
}

var rows: [Row] = []
do {
  let agent = try AgentProcess(executable: executable, processor: 0)
  sleep(2)
  let before = agent.wakeUps()
  sleep(10)
  rows.append(
    Row(benchmark: "idle", subject: "wake-ups in 10 s", value: Double(agent.wakeUps() - before), unit: "", bar: 0))
  rows.append(
    Row(benchmark: "idle", subject: "resident memory", value: agent.memory("VmRSS") / 1024, unit: "MiB", bar: 20))
  let calm = try run(rate: 1000, hosts: 1000, seconds: min(seconds, 20), agent: agent)
  rows.append(
    Row(benchmark: "1000 reports a second", subject: "lost or doubled", value: Double(calm.lost), unit: "", bar: 0))
  rows.append(
    Row(
      benchmark: "1000 reports a second", subject: "p50 to the file", value: calm.latencies.percentile(0.5), unit: "ms")
  )
  rows.append(
    Row(
      benchmark: "1000 reports a second", subject: "p99 to the file", value: calm.latencies.percentile(0.99),
      unit: "ms", bar: 10))
  rows.append(Row(benchmark: "1000 reports a second", subject: "processor", value: calm.cpu * 100, unit: "%"))
  agent.stop()
}
do {
  let agent = try AgentProcess(executable: executable, processor: 0)
  let busy = try run(rate: 10_000, hosts: 1000, seconds: seconds, agent: agent)
  rows.append(
    Row(benchmark: "10000 reports a second", subject: "lost or doubled", value: Double(busy.lost), unit: "", bar: 0))
  rows.append(
    Row(
      benchmark: "10000 reports a second", subject: "p99 to the file", value: busy.latencies.percentile(0.99),
      unit: "ms"))
  rows.append(Row(benchmark: "10000 reports a second", subject: "processor", value: busy.cpu * 100, unit: "%"))
  rows.append(
    Row(
      benchmark: "10000 reports a second", subject: "largest resident memory", value: agent.memory("VmHWM") / 1024,
      unit: "MiB"))
  agent.stop()
}
var status = stat()
stat(executable, &status)
rows.append(
  Row(
    benchmark: "binary", subject: "static standard library, stripped", value: Double(status.st_size) / 1e6, unit: "MB",
    bar: 25))
try Results.publish(rows, name: "agent")

// The same for people.
func text(_ value: Double?) -> String { value.map { String(format: "%.4g", $0) } ?? "" }
let table = rows.map { row in
  "| \(row.benchmark) | \(row.subject) | \(text(row.value)) \(row.unit) | \(text(row.bar)) | \(row.pass.map { $0 ? "yes" : "**no**" } ?? "") |"
}
try """
# What the agent costs

`make bench-agent`: the installed binary on one processor, with its default settings but for the file's size; a thousand hosts, and one who reads
along, on the other. Each report has a stack of twenty frames, about 2 KB, of a program that is not on this machine, so that each line costs what
an unknown one does. A report has arrived when it can be read in the file. Lost or doubled: not in the file, there twice, or not acknowledged.

| | | measured | at most | holds |
|---|---|---|---|---|
\(table.joined(separator: "\n"))

""".write(toFile: CommandLine.arguments[2], atomically: true, encoding: .utf8)
