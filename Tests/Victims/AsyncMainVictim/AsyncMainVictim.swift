import Dispatch
import Glibc
import StallMonitor

/// A service with `@main async`, whose main actor is served by libdispatch's workers: it does one thing there, and is judged from
/// outside by its report lines.
///
///     AsyncMainVictim SCENARIO
@main
struct AsyncMainVictim {
  static func main() async throws {
    let monitor = try StallMonitor.start()
    switch CommandLine.arguments.dropFirst().first ?? "" {
    case "main-actor":
      try await Task.sleep(for: .milliseconds(150))
      await Task { @MainActor in blockTheMainActor() }.value
      try await Task.sleep(for: .milliseconds(150))
    case "main":
      // The main function itself, after its first suspension.
      try await Task.sleep(for: .milliseconds(150))
      blockTheMainActor()
      try await Task.sleep(for: .milliseconds(150))
    case "expected":
      try await Task.sleep(for: .milliseconds(150))
      let blocked = Task.detached { blockAThreadOfThePool() }
      await blockExpectedly(monitor)
      await blocked.value
    case "busy":
      let end = DispatchTime.now().uptimeNanoseconds + 1_200_000_000
      while DispatchTime.now().uptimeNanoseconds < end {
        for _ in 0..<Int.random(in: 1...4) { Task { @MainActor in spin(milliseconds: Int.random(in: 0...10)) } }
        try await Task.sleep(for: .milliseconds(2))
      }
    case "pool":
      // A blocking call on each of the pool's threads.
      try await Task.sleep(for: .milliseconds(150))
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) { group.addTask { blockAThreadOfThePool() } }
      }
      try await Task.sleep(for: .milliseconds(150))
    case "pool-busy":
      // More to do than threads, and none for long; and one that is blocked all the time.
      let blocked = Task.detached { blockAThreadOfThePool() }
      let end = DispatchTime.now().uptimeNanoseconds + 600_000_000
      while DispatchTime.now().uptimeNanoseconds < end {
        for _ in 0..<8 { Task.detached { spin(milliseconds: Int.random(in: 0...2)) } }
        try await Task.sleep(for: .milliseconds(10))
      }
      await blocked.value
    case "suspended":
      // A main function that waits for long is no stall: the actor is free.
      try await Task.sleep(for: .milliseconds(600))
    default:
      print("victim: unknown scenario")
      exit(2)
    }
    monitor.stop()
  }
}

@inline(never)
@MainActor func blockTheMainActor() {
  usleep(450_000)
  let line = "victim: slept=true\n"
  write(2, line, line.utf8.count)
}

/// Slow work on the main actor, which its suspension does not leave.
@MainActor func blockExpectedly(_ monitor: StallMonitor) async {
  var rounds = 0
  await monitor.expectSlow(on: "main") {
    blockTheMainActor()
    await Task.yield()
    blockTheMainActor()
    rounds += 1
  }
  let line = "victim: rounds=\(rounds)\n"
  write(2, line, line.utf8.count)
}

@inline(never)
func blockAThreadOfThePool() {
  // Not the same as the main actor's: the compiler makes functions that are alike into one.
  usleep(470_000)
  let line = "victim: pool=true\n"
  write(2, line, line.utf8.count)
}

@inline(never)
func spin(milliseconds: Int) {
  let end = DispatchTime.now().uptimeNanoseconds + UInt64(milliseconds) * 1_000_000
  while DispatchTime.now().uptimeNanoseconds < end {}
}
