import Glibc
import LoopEngine
import StallMonitor
import Synchronization

// A service on the main loop that answers lines from standard input: `hello NAME`, and `sleep MILLISECONDS`, which is slow.

let loop = Loop.main
// First of all: threads that are started later inherit the blocked signal.
try loop.add(Loop.SignalSource([SIGTERM], name: "stop signal") { _ in loop.stop() })
let monitor = try StallMonitor.start()

func say(_ text: String) {
  let line = Array((text + "\n").utf8)
  write(STDERR_FILENO, line, line.count)
}

func answer(_ line: Substring) {
  let words = line.split(separator: " ")
  switch words.first {
  case "hello": say("Hello, \(words.dropFirst().joined(separator: " "))!")
  case "sleep": waitForASlowBackend(milliseconds: words.dropFirst().first.flatMap { UInt32($0) } ?? 400)
  default: say("? \(line)")
  }
}

/// What every service has somewhere: a call that takes its time, in a handler that must not.
@inline(never)
func waitForASlowBackend(milliseconds: UInt32) {
  usleep(milliseconds * 1000)
  say("The slow backend has answered.")
}

let pending = Mutex("")  // The beginning of a line whose end has not come yet.
let input = Loop.DescriptorSource(STDIN_FILENO, name: "requests") { source, _ in
  var buffer = [UInt8](repeating: 0, count: 4096)
  let count = read(source.descriptor, &buffer, buffer.count)
  guard count > 0 else { return loop.stop() }
  var lines = (pending.withLock { $0 } + String(decoding: buffer[..<count], as: UTF8.self)).split(
    separator: "\n", omittingEmptySubsequences: false)
  pending.withLock { $0 = String(lines.removeLast()) }
  lines.forEach(answer)
}
// A file, and the /dev/null that systemd gives a service, cannot be waited for.
do { try loop.add(input) } catch { say("No requests will be read: \(error)") }
loop.add(Loop.Timer(after: .seconds(10), repeats: true, name: "sign of life") { _ in say("Still here.") })

say("Serving; SIGTERM or the end of the input stops it.")
loop.run()
monitor.stop()
say("Stopped.")
