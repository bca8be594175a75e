import Glibc
import LoopEngine
import VictimC

/// Stalls that come more than once, or are of more than one kind.
let repeatScenarios: [String: @Sendable () -> Void] = [
  // Five times the same.
  "repeated": { stalls(Array(repeating: .computing(Double(milliseconds)), count: 5)) },
  // Twice in each of three functions that are inlined into one.
  "inlined-work": { stalls((0..<6).map { .inlined($0, UInt32(milliseconds)) }) },
  // Twice the same, and a third time far longer.
  "repeated-and-longer": { stalls([.computing(600), .computing(600), .computing(Double(milliseconds))]) },
  // The same function, twice on each of two ways.
  "two-ways": {
    let time = Double(milliseconds)
    stalls([.oneWay(time), .anotherWay(time), .oneWay(time), .anotherWay(time)])
  },
  "three-kinds": { stalls([.computing(600), .counting(600), .sleeping]) },
  // One stall: a while in one function, twice as long in another, and a little in the first.
  "two-functions": {
    once { say("result=\(handleRequest())") }
  },
  // Stalls of 30 ms, a few in each second, until the time is over, and a long last one; then how many there were.
  "often": {
    stallOften(1, until: now() + Double(milliseconds))
    Loop.main.run()
  },
]

enum PlannedStall: Sendable {
  case computing(Double)
  case counting(Double)
  case sleeping
  case inlined(Int32, UInt32)
  case oneWay(Double)
  case anotherWay(Double)
}

private func stalls(_ plan: [PlannedStall]) {
  @Sendable func next(_ rest: ArraySlice<PlannedStall>) {
    guard let stall = rest.first else { return Loop.main.stop() }
    Loop.main.after(30) {
      switch stall {
      case .computing(let time): _ = computeFor(time)
      case .counting(let time): _ = countFor(time)
      case .sleeping: _ = blockBySleeping()
      case .oneWay(let time): say("one=\(oneWay(time))")
      case .anotherWay(let time): say("another=\(anotherWay(time))")
      case .inlined(let number, let time): victim_inlined_work(number, time)
      }
      next(rest.dropFirst())
    }
  }
  next(plan[...])
  Loop.main.run()
}

@Sendable
private func stallOften(_ number: Int, until end: Double) {
  Loop.main.after(250) {
    let isLast = now() > end
    usleep(isLast ? 500_000 : 30_000)
    guard isLast else { return stallOften(number + 1, until: end) }
    say("stalls=\(number)")
    Loop.main.after(100) { Loop.main.stop() }
  }
}

// Different enough that the optimizer does not make them one, and not tail calls.
@inline(never)
func computeFor(_ milliseconds: Double) -> Double {
  // With no function of its own: a sample in one would be another stack.
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  let end = time.tv_sec * 1000 + time.tv_nsec / 1_000_000 + Int(milliseconds)
  while time.tv_sec * 1000 + time.tv_nsec / 1_000_000 < end { clock_gettime(CLOCK_MONOTONIC, &time) }
  return Double(end)
}

@inline(never)
func oneWay(_ milliseconds: Double) -> Double { computeFor(milliseconds) + 1 }

@inline(never)
func anotherWay(_ milliseconds: Double) -> Double { computeFor(milliseconds) * 3 }

@inline(never)
func countFor(_ milliseconds: Double) -> Int {
  let end = now() + milliseconds
  var count = 0
  while now() < end { count += 1 }
  return count
}

@inline(never)
func handleRequest() -> Double {
  let first = computeFor(400)
  let count = countFor(1200)
  return first + Double(count) + computeFor(100)
}
