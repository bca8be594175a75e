import Glibc

// `make bench`: what watching costs, and how soon a stall is known. One process, one run; ratios are against rows of the same run.
switch CommandLine.arguments.dropFirst().first {
case "foundation": try FoundationTurnCost.host(isThreaded: false)
case "foundation-threaded": try FoundationTurnCost.host(isThreaded: true)
case "heartbeat-busy": try HeartbeatCost.host(isBusy: true)
case "heartbeat-idle": try HeartbeatCost.host(isBusy: false)
case "detection":
  for row in try Detection.run() { print(row.benchmark, row.value, row.unit) }
  exit(0)
default: break
}
var rows: [Row] = []
rows += try TurnCost.run()
rows += try FoundationTurnCost.run()
rows += try Detection.run()
rows += try IdleCost.run()
rows += try HeartbeatCost.run()
try Results.publish(rows, name: "monitor")
