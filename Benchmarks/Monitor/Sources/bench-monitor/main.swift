// `make bench`: what watching costs, and how soon a stall is known. One process, one run; ratios are against rows of the same run.
var rows: [Row] = []
rows += try TurnCost.run()
rows += try Detection.run()
rows += try IdleCost.run()
try Results.publish(rows, name: "monitor")
