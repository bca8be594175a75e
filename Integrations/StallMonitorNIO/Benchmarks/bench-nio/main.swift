import BenchmarkSupport
import Foundation
import NIOPosix
import StallMonitor
import StallMonitorNIO

// `make bench-nio`: the throughput of an echo server whose event loop is watched, against the same server unwatched, in alternation.
// One process, one run; the watch begins and ends between the rounds.
let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 20
let seconds = 0.5

var configuration = StallMonitorConfiguration()
configuration.sink = .file(path: "/dev/null")
let monitor = try StallMonitor.start(configuration)
let echo = try EchoThroughput()
_ = try echo.measure(seconds: 1)

/// The server measured in one state, round after round.
struct Series {
  var rates: [Double] = []
  var times: [Double] = []

  mutating func measure(_ echo: EchoThroughput, seconds: Double) throws {
    let (rate, time) = try echo.measure(seconds: seconds)
    rates.append(rate)
    times.append(time)
  }
}

var alone = Series()
var watched = Series()

for round in 0..<rounds {
  // Each goes first in half of the rounds.
  for isWatched in round % 2 == 0 ? [false, true] : [true, false] {
    if isWatched {
      let watch = try monitor.watch(echo.server)
      try watched.measure(echo, seconds: seconds)
      watch.stop()
    } else {
      try alone.measure(echo, seconds: seconds)
    }
  }
}
let ratio = zip(watched.rates, alone.rates).map { $0 / $1 }.median
let timeRatio = zip(watched.times, alone.times).map { $0 / $1 }.median

try echo.stop()

// A group with nothing to do: its loops are not woken; what is left is the watchdog's.
let idleLoops = 16
let idle = MultiThreadedEventLoopGroup(numberOfThreads: idleLoops)
try monitor.watch(idle)
sleep(2)
let (processorTime, wakeUps) = (clock(), watchdogWakeUps())
sleep(10)
let idleMicroseconds = Double(clock() - processorTime) * 1e6 / Double(CLOCKS_PER_SEC)
let idleWakeUps = Double(watchdogWakeUps() - wakeUps)
try idle.syncShutdownGracefully()

let rows = [
  BenchmarkRow(benchmark: "echo, 64 bytes", subject: "event loop alone", value: alone.rates.median, unit: "1/s"),
  BenchmarkRow(
    benchmark: "echo, 64 bytes", subject: "event loop, watched", value: watched.rates.median, unit: "1/s",
    ratio: ratio),
  BenchmarkRow(
    benchmark: "echo, 64 bytes", subject: "throughput lost", value: (1 - ratio) * 100, unit: "%", bar: 1),
  BenchmarkRow(
    benchmark: "echo, processor time", subject: "event loop alone", value: alone.times.median, unit: "ns"),
  BenchmarkRow(
    benchmark: "echo, processor time", subject: "event loop, watched", value: watched.times.median, unit: "ns",
    ratio: timeRatio),
  BenchmarkRow(
    benchmark: "idle, 10 s, 16 event loops", subject: "watchdog's wake-ups", value: idleWakeUps, unit: "", bar: 41),
  BenchmarkRow(
    benchmark: "idle, 10 s, 16 event loops", subject: "processor time, whole process", value: idleMicroseconds / 1000,
    unit: "ms"),
]
var results = BenchmarkTable()
results.add(rows)
try results.writeJSON("nio")
