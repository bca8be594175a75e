import BenchmarkSupport
import Glibc

// `make bench`: what watching costs, and how soon a stall is known. One process, one run; ratios are against rows of the same run.
runBenchmark {
  switch CommandLine.arguments.dropFirst().first {
  case "foundation": try FoundationTurnCost.host(isThreaded: false)
  case "foundation-threaded": try FoundationTurnCost.host(isThreaded: true)
  case "heartbeat-busy": try HeartbeatCost.host(isBusy: true)
  case "heartbeat-idle": try HeartbeatCost.host(isBusy: false)
  case "jobs":
    var jobs = BenchmarkTable()
    jobs.add(try JobCost.run())
    exit(0)
  case "detection":
    for row in try Detection.run() { print(row.benchmark, row.value, row.unit) }
    exit(0)
  default: break
  }
  var results = BenchmarkTable()
  results.add(try TurnCost.run())
  results.add(try FoundationTurnCost.run())
  results.add(try JobCost.run())
  results.add(try Detection.run())
  results.add(try IdleCost.run())
  results.add(try HeartbeatCost.run())
  try results.writeJSON("monitor")
}
