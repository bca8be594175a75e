import Glibc
import LoopEngine
import StallMonitor
import VictimCxx

// A host that throws C++ exceptions on its main loop, watched or not, and says how many in a second.
//
//   ThrowVictim MILLISECONDS

let milliseconds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 500
let monitor = try StallMonitor.start()
let timer = Loop.Timer(after: .milliseconds(20), repeats: false, name: "throws") { _ in
  var (start, now) = (timespec(), timespec())
  clock_gettime(CLOCK_MONOTONIC, &start)
  var (count, seconds) = (0, 0.0)
  while seconds * 1000 < Double(milliseconds) {
    for _ in 0..<200 where victim_cxx_throw() == 11 { count += 1 }
    clock_gettime(CLOCK_MONOTONIC, &now)
    seconds = Double(now.tv_sec - start.tv_sec) + Double(now.tv_nsec - start.tv_nsec) / 1e9
  }
  let line = Array("victim: watching=\(monitor.isWatching) throws_per_second=\(Int(Double(count) / seconds))\n".utf8)
  _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  Loop.main.stop()
}
Loop.main.add(timer, to: .common)
Loop.main.run()
monitor.stop()
