import BenchmarkSupport
import CPeers
import Foundation
import LoopEngine

// Usage: swift run -c release --package-path Benchmarks/Loop LoopBenchmark [--json FILE] [--svg FILE] [--markdown FILE]
// [--rounds N] [--only TEXT] [--subject TEXT] Pin it to one core: taskset -c 1 …
// It starts itself for each measurement: --measure ROW --subject NAME prints one number.

struct Options {
  var json: String?
  var svg: String?
  var markdown: String?
  var rounds = 15
  var only: String?
  var subject: String?
  var measure: String?

  init(_ arguments: [String]) {
    var rest = arguments.dropFirst()
    while let option = rest.popFirst() {
      let value = rest.popFirst()
      switch option {
      case "--json": json = value
      case "--svg": svg = value
      case "--markdown": markdown = value
      case "--rounds": rounds = value.flatMap(Int.init) ?? rounds
      case "--only": only = value
      case "--subject": subject = value
      case "--measure": measure = value
      default:
        FileHandle.standardError.write(Data("unknown option \(option)\n".utf8))
        exit(2)
      }
    }
  }
}

struct Row {
  let name: String
  /// The peer that the bar is measured against.
  let against: String
  let bar: Double?
  /// For what scatters more than others.
  var roundsFactor = 1
  let measure: (Subject) -> Double?
}

/// Counts are chosen so that each measurement takes some tens of milliseconds.
let rows: [Row] = [
  Row(name: "round trip", against: "bare epoll", bar: 1.05) { $0.roundTrip?(10_000) },
  Row(name: "post from another thread", against: "libuv", bar: 1.2) { $0.post?(100, 1000) },
  Row(name: "post from itself", against: "bare epoll", bar: 1.5) { $0.selfPost?(500, 1000) },
  // Before the rows with ten thousand descriptors and a million timers, which leave the heap of the process in pieces.
  Row(name: "fire, 10k due", against: "libev", bar: 1.5) { $0.fire?(10_000) },
  Row(name: "descriptor event, 1 watched", against: "bare epoll", bar: 1.1) { $0.descriptors?(1, 20_000) },
  Row(name: "descriptor event, 10k watched", against: "bare epoll", bar: 1.1, roundsFactor: 2) {
    $0.descriptors?(10_000, 20_000 / $0.descriptorDivisor)
  },
  Row(name: "descriptor event, 10k watched, a closure each", against: "bare epoll", bar: nil) {
    ($0.descriptorsWithClosures ?? ($0.name == "bare epoll" ? $0.descriptors : nil))?(10_000, 20_000)
  },
  Row(name: "timer insert + cancel, 10 pending", against: "libev", bar: 2) {
    $0.timerChurn?(10, 200_000 / $0.timerDivisor)
  },
  Row(name: "timer insert + cancel, 1k pending", against: "libev", bar: 2) {
    $0.timerChurn?(1000, 200_000 / $0.timerDivisor)
  },
  Row(name: "timer insert + cancel, 100k pending", against: "libev", bar: 2) {
    $0.mostTimers < 100_000 ? nil : $0.timerChurn?(100_000, 200_000 / $0.timerDivisor)
  },
  Row(name: "timer insert + cancel, 1M pending", against: "libev", bar: 2) {
    $0.mostTimers < 1_000_000 ? nil : $0.timerChurn?(1_000_000, 200_000 / $0.timerDivisor)
  },
  Row(name: "timer create + add + cancel", against: "libev", bar: nil) { $0.timerLife?(100_000) },
  Row(name: "empty iteration", against: "bare epoll", bar: 1.2) { $0.empty?(50_000) },
  // The same for each source however many there are.
  Row(name: "signal + perform, 1k sources", against: "CFRunLoop", bar: nil) { $0.signalledSources?(1000, 80) },
  Row(name: "signal + perform, 8k sources", against: "CFRunLoop", bar: nil) { $0.signalledSources?(8000, 10) },
]

let options = Options(CommandLine.arguments)
var limit = rlimit()
getrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit)
limit.rlim_cur = limit.rlim_max
setrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit)

/// Makes one loop and no other.
@MainActor
func subject(named name: String) -> Subject? {
  switch name {
  case "LoopEngine": ourLoop()
  case "CFRunLoop": coreFoundation()
  case "libdispatch": dispatch()
  case "NIO": nio()
  default: cPeers().first { $0.name == name }
  }
}

if let name = options.measure {
  guard let row = rows.first(where: { $0.name == name }),
    let subject = options.subject.flatMap(subject(named:))
  else { exit(2) }
  // As in any service there is another thread, for which the kernel charges.
  Thread.detachNewThread { while true { sleep(3600) } }
  _ = row.measure(subject)
  if let value = row.measure(subject) { print(value) }
  exit(0)
}

let packages = ["libuv": "libuv1-dev", "libev": "libev-dev", "libevent": "libevent-dev", "GLib": "libglib2.0-dev"]
let missing = packages.filter { peer in !cPeers().contains { $0.name == peer.key } }.sorted { $0.key < $1.key }
if options.subject == nil, !missing.isEmpty {
  endBenchmark(
    "built without \(missing.map(\.key).joined(separator: " and ")): apt-get install \(missing.map(\.value).joined(separator: " ")), then build it again"
  )
}

runBenchmark {
  let subjects = (["LoopEngine"] + cPeers().map(\.name) + ["CFRunLoop", "libdispatch", "NIO"]).filter { name in
    options.subject.map(name.contains) ?? true
  }
  var results: [BenchmarkRow] = []

  for row in rows where options.only.map(row.name.contains) ?? true {
    var samples = Samples()
    for _ in 0..<options.rounds * row.roundsFactor { try samples.addRound(of: row, subjects) }
    for subject in subjects {
      guard let value = samples.median(of: subject) else { continue }
      let ratio = samples.ratio(of: subject, to: row.against)
      let bar = subject == "LoopEngine" ? row.bar : nil
      results.append(
        BenchmarkRow(
          benchmark: row.name, subject: subject, value: value, unit: "ns", ratio: ratio, bar: bar,
          pass: bar.flatMap { bar in ratio.map { $0 <= bar } }))
    }
    printRow(row.name, results.filter { $0.benchmark == row.name }, against: row.against)
    // The promise of this row is a time: signalling all of them, and the pass that performs them.
    if row.name == "signal + perform, 8k sources", let value = samples.median(of: "LoopEngine") {
      let pass = value * 8000 / 1e6
      results.append(
        BenchmarkRow(
          benchmark: "8000 signalled sources: one pass", subject: "LoopEngine", value: pass, unit: "ms", ratio: nil,
          bar: 5, pass: pass <= 5))
      printRow(results.last!.benchmark, [results.last!], against: "5 ms")
    }
    // The other promise: three times as fast as CFRunLoop, except where the kernel's share leaves no room, and with
    // signalled sources, whose promise is a time.
    if row.name != "round trip", !row.name.hasPrefix("signal + perform"),
      let times = samples.ratio(of: "CFRunLoop", to: "LoopEngine")
    {
      results.append(
        BenchmarkRow(
          benchmark: "CFRunLoop's time to ours: \(row.name)", subject: "LoopEngine", value: times, unit: "times",
          ratio: times, bar: 3, pass: times >= 3))
      printRow(results.last!.benchmark, [results.last!], against: "ours, at least")
    }
  }

  if options.only == nil || options.only == "observer" {
    let cost = observerCost(50_000)
    for (name, value) in [
      ("one observer, constant closure", cost.hook), ("one observer, counting closure", cost.closure),
    ] {
      results.append(
        BenchmarkRow(
          benchmark: name, subject: "LoopEngine", value: value, unit: "ns per call", ratio: nil, bar: 10,
          pass: value <= 10))
      printRow(name, [results.last!], against: "10 ns")
    }
  }

  if options.only == nil || options.only == "idle" {
    let switches = idleSwitches(seconds: 2)
    results.append(
      BenchmarkRow(
        benchmark: "idle for 2 s", subject: "LoopEngine", value: Double(switches), unit: "wake-ups", ratio: nil, bar: 0,
        pass: switches == 0))
    printRow("idle for 2 s, wake-ups", [results.last!], against: "0")
  }

  if let path = options.json { try BenchmarkTable.write(results, to: URL(fileURLWithPath: path)) }
  if let path = options.svg { try writeChart(results, to: path) }
  if let path = options.markdown { try writeTable(results, to: path) }
}
exit(0)
