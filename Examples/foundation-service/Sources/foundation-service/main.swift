import Foundation
import StallMonitor

// A service as it may exist today, on Foundation's run loop, with one line more: `StallMonitor.start()`.
// It answers lines from standard input: `hello NAME`, and `sleep MILLISECONDS`, which is slow.

let monitor = try StallMonitor.start()

func say(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

@MainActor
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

var pending = ""  // The beginning of a line whose end has not come yet.
let input = DispatchSource.makeReadSource(fileDescriptor: FileHandle.standardInput.fileDescriptor, queue: .main)
input.setEventHandler {
  MainActor.assumeIsolated {
    let data = FileHandle.standardInput.availableData
    guard !data.isEmpty else { return finish() }
    var lines = (pending + String(decoding: data, as: UTF8.self)).split(
      separator: "\n", omittingEmptySubsequences: false)
    pending = String(lines.removeLast())
    lines.forEach(answer)
  }
}
input.resume()

@MainActor
func finish() {
  monitor.stop()
  say("Stopped.")
  exit(0)
}

say("Serving; the end of the input stops it.")
RunLoop.main.run()
