import CxxThrow
import LoopEngine
import StallMonitor

// The same on a loop that is watched: in a turn, as a host would.
var configuration = StallMonitorConfiguration()
configuration.sink = .file(path: "/dev/null")
let monitor = try StallMonitor.start(configuration)
Loop.main.schedule(after: .milliseconds(5)) { _ in
  _ = throws_per_second(0.02)
  print(throws_per_second(0.08))
  Loop.main.stop()
}
Loop.main.run()
monitor.stop()
