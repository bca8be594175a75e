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

var rates: (alone: [Double], watched: [Double]) = ([], [])
var times: (alone: [Double], watched: [Double]) = ([], [])
var ratios: [Double] = []
var timeRatios: [Double] = []

func measureAlone() throws -> (rate: Double, time: Double) {
  let (rate, time) = try echo.measure(seconds: seconds)
  rates.alone.append(rate)
  times.alone.append(time)
  return (rate, time)
}

func measureWatched() throws -> (rate: Double, time: Double) {
  let watch = try monitor.watch(echo.server)
  defer { watch.stop() }
  let (rate, time) = try echo.measure(seconds: seconds)
  rates.watched.append(rate)
  times.watched.append(time)
  return (rate, time)
}

for round in 0..<rounds {
  // Each goes first in half of the rounds.
  let (alone, watched): ((rate: Double, time: Double), (rate: Double, time: Double))
  if round % 2 == 0 {
    alone = try measureAlone()
    watched = try measureWatched()
  } else {
    watched = try measureWatched()
    alone = try measureAlone()
  }
  ratios.append(watched.rate / alone.rate)
  timeRatios.append(watched.time / alone.time)
}

let rows = [
  Row(benchmark: "echo, 64 bytes", subject: "event loop alone", value: rates.alone.median, unit: "1/s"),
  Row(
    benchmark: "echo, 64 bytes", subject: "event loop, watched", value: rates.watched.median, unit: "1/s",
    ratio: ratios.median),
  Row(
    benchmark: "echo, 64 bytes", subject: "throughput lost", value: (1 - ratios.median) * 100, unit: "%", bar: 1),
  Row(
    benchmark: "echo, processor time", subject: "event loop alone", value: times.alone.median, unit: "ns"),
  Row(
    benchmark: "echo, processor time", subject: "event loop, watched", value: times.watched.median, unit: "ns",
    ratio: timeRatios.median),
]
try Results.publish(rows, name: "nio")
