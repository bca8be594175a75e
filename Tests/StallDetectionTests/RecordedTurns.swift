import Foundation
import StallDetection
import StallReport
import TestSupport

@testable import StallMonitor

/// A service's recorded turns: `Fixtures/turns.txt`, whose first lines say what it has.
struct RecordedTurns {
  /// A turn; times in microseconds since the beginning.
  struct Turn {
    var began: UInt64
    var duration: UInt64
    /// What the kernel counted in it; nil of a short one.
    var processorTime: UInt64?
    var runDelay: UInt64?
    /// What its thread did.
    var kind: Character

    var end: UInt64 { began + duration }
  }

  private(set) var turns: [Turn] = []
  /// When the service paused its watch, and continued it.
  private(set) var pauses: [(begin: UInt64, end: UInt64)] = []
  /// When the process was stopped, and for how long.
  private(set) var freezes: [(begin: UInt64, duration: UInt64)] = []

  init() throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/turns.txt")
    var time: UInt64 = 0
    for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") where !line.hasPrefix("#") {
      let fields = line.split(separator: " ")
      let numbers = fields.compactMap { UInt64($0) }
      switch fields[0] {
      case "P": pauses.append((numbers[0], numbers[1]))
      case "F": freezes.append((numbers[0], numbers[1]))
      default:
        time += numbers[0]
        turns.append(
          Turn(
            began: time, duration: numbers[1], processorTime: numbers.count > 2 ? numbers[2] : nil,
            runDelay: numbers.count > 3 ? numbers[3] : nil, kind: fields.count > 4 ? Character(String(fields[4])) : "r")
        )
      }
    }
  }

  /// Plans all of it in a service; the recording begins at `start`.
  func plan(in service: VirtualService, loop: VirtualService.Loop, from start: Instant) {
    func moment(_ time: UInt64) -> Instant { start + time * 1000 }
    for turn in turns { service.turn(of: loop, from: moment(turn.began), lasting: turn.duration * 1000) }
    for pause in pauses {
      service.at(moment(pause.begin)) { loop.suspension.begin(at: service.time) }
      service.at(moment(pause.end)) {
        _ = loop.suspension.end(at: service.time)
        service.semaphore.post()
      }
    }
    for freeze in freezes { service.freeze(at: moment(freeze.begin), for: freeze.duration * 1000) }
    let long = turns.filter { $0.processorTime != nil }
    // Time goes forward.
    var next = 0
    func turn(at time: Instant) -> Turn? {
      while next < long.count, moment(long[next].began) <= time { next += 1 }
      return next > 0 ? long[next - 1] : nil
    }
    loop.activity = { time in
      switch turn(at: time)?.kind {
      case "s", "g": .inCall(.sleep)
      case "l": .inCall(.lock)
      case "i": .inCall(.io)
      // A third of it on a processor, and then asleep.
      case "x": turn(at: time).map { time < moment($0.began + $0.duration / 3) } == true ? .running : .inCall(.sleep)
      default: .running
      }
    }
    loop.usage = { time in
      guard let turn = turn(at: time), let processorTime = turn.processorTime, let runDelay = turn.runDelay else {
        return nil
      }
      // As much of it as of the turn.
      let observed = time.since(moment(turn.began))
      func part(_ whole: UInt64) -> UInt64 {
        UInt64(Double(whole * 1000) * min(Double(observed) / Double(turn.duration * 1000), 1))
      }
      return ResourceUsage(
        observed: observed, cpu: part(processorTime), runDelay: part(runDelay), throttled: 0, majorFaults: 0,
        minorFaults: 0, blockDelay: 0, pressure: nil, waits: turn.kind == "r" ? 0 : 1)
    }
  }
}
