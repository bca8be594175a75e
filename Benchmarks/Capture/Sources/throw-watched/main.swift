import CxxThrow
import LoopEngine
import StallMonitor

// The same on a loop that is watched: in a turn, as a host would; or in the same program with the monitor disabled.
var configuration = StallMonitorConfiguration()
configuration.isEnabled = !CommandLine.arguments.contains("disabled")
configuration.sink = .file(path: "/dev/null")
let monitor = try StallMonitor.start(configuration)
Loop.main.perform(after: .milliseconds(5)) { _ in
  _ = throws_per_second(0.02)
  print(throws_per_second(0.08))
  Loop.main.stop()
}
Loop.main.run()
monitor.stop()
