import BenchmarkSupport
import Foundation
import LoopEngine

func printRow(_ name: String, _ results: [BenchmarkRow], against: String) {
  print("\(name)  (relative to \(against))")
  for result in results {
    let value = String(format: "%12.1f", result.value)
    let ratio = result.ratio.map { String(format: "%8.2fx", $0) } ?? "         "
    let verdict = result.pass.map { $0 ? "  pass, bar \(result.bar!)" : "  FAIL, bar \(result.bar!)" } ?? ""
    print(
      "  \(result.subject.padding(toLength: 14, withPad: " ", startingAt: 0))\(value) \(result.unit)\(ratio)\(verdict)")
  }
  fflush(nil)
}

/// The rows as ratios, for Documentation/Performance.md.
///
/// The peer that a row's target refers to has `1`.
func writeTable(_ results: [BenchmarkRow], to path: String) throws {
  let subjects = [
    "LoopEngine", "bare epoll", "libuv", "libev", "libevent", "GLib", "CFRunLoop", "libdispatch", "NIO",
  ]
  var text =
    "| | target | " + subjects.joined(separator: " | ") + " |\n|---|---|" + subjects.map { _ in "---|" }.joined()
  var names: [String] = []
  for result in results where result.ratio != nil && result.unit == "ns" && !names.contains(result.benchmark) {
    names.append(result.benchmark)
  }
  for name in names {
    let cells = results.filter { $0.benchmark == name }
    let ours = cells.first { $0.subject == "LoopEngine" }
    text += "\n| \(name) | \(ours?.bar.map { "≤ \($0)" } ?? "") |"
    for subject in subjects {
      guard let ratio = cells.first(where: { $0.subject == subject })?.ratio else {
        text += " – |"
        continue
      }
      let number = ratio == 1 ? "1" : String(format: ratio < 10 ? "%.2f" : "%.0f", ratio)
      text += subject == "LoopEngine" ? " **\(number)**\(ours?.pass == false ? " (missed)" : "") |" : " \(number) |"
    }
  }
  try (text + "\n").write(toFile: path, atomically: true, encoding: .utf8)
}

/// A bar chart of the ratios on a logarithmic scale, one group a row.
func writeChart(_ results: [BenchmarkRow], to path: String) throws {
  let colours = [
    "LoopEngine": "#d1495b", "bare epoll": "#444444", "libuv": "#5b8e7d", "libev": "#8cb369", "libevent": "#bc9a41",
    "GLib": "#7b6d8d", "CFRunLoop": "#4a7fb5", "libdispatch": "#8ab6d6", "NIO": "#f4a259",
  ]
  var body = ""
  var y = 40.0
  func x(_ ratio: Double) -> Double { 300 + 110 * log10(max(ratio, 0.1) * 10) }
  var names: [String] = []
  for result in results where !names.contains(result.benchmark) && result.ratio != nil && result.unit == "ns" {
    names.append(result.benchmark)
  }
  for name in names {
    body += "<text x='290' y='\(y + 10)' text-anchor='end' font-weight='bold'>\(name)</text>\n"
    for result in results where result.benchmark == name {
      guard let ratio = result.ratio else { continue }
      let label = String(format: ratio < 10 ? "%@ %.2f" : "%@ %.0f", result.subject, ratio)
      body +=
        "<rect x='300' y='\(y)' width='\(max(1, x(ratio) - 300))' height='10' fill='\(colours[result.subject] ?? "#999")'/>"
      body +=
        "<text x='\(x(ratio) + 5)' y='\(y + 9)' stroke='white' stroke-width='3' paint-order='stroke'>\(label)</text>\n"
      y += 13
    }
    y += 12
  }
  // Behind the bars: a line for each power of ten, the peer's own dashed.
  let grid = [0.1, 1, 10, 100, 1000, 10_000, 100_000].map { ratio in
    let style = ratio == 1 ? "stroke='#000' stroke-dasharray='3 3'" : "stroke='#ddd'"
    let label = ratio < 1 ? "0.1" : String(Int(ratio))
    return "<line x1='\(x(ratio))' y1='34' x2='\(x(ratio))' y2='\(y)' \(style)/>"
      + "<text x='\(x(ratio))' y='31' text-anchor='middle' fill='#666'>\(label)</text>"
  }.joined(separator: "\n")
  let svg = """
    <svg xmlns='http://www.w3.org/2000/svg' width='1150' height='\(y + 10)' font-family='sans-serif' font-size='10'>
    <rect width='100%' height='100%' fill='white'/>
    <text x='300' y='20' font-size='13'>Time per operation relative to the program that the row's target refers to (dashed: 1), logarithmic; shorter is faster</text>
    \(grid)
    \(body)</svg>
    """
  try svg.write(toFile: path, atomically: true, encoding: .utf8)
}

/// How often an idle loop with a far timer and a watched descriptor gives up its core in a while.
func idleSwitches(seconds: UInt32) -> Int {
  let thread = PermanentThread(name: "idle")
  try! thread.start()
  let loop = thread.loop!
  loop.perform(after: .seconds(3600)) { _ in }
  while !loop.isWaiting { usleep(1000) }
  usleep(50_000)
  func count() -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/task/\(loop.threadID)/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches") }
    return line.flatMap { Int($0.split(separator: "\t").last ?? "") } ?? -1
  }
  let before = count()
  sleep(seconds)
  let after = count()
  thread.stop()
  return after - before
}
