import Foundation

extension Victim {
  /// Runs the victim of this package; each stall is reported, also one that is like another.
  static func run(
    here scenario: String, environment: [String: String] = [:], waitingFor words: String = "",
    whileRunning: ((Process) throws -> Void)? = nil
  ) throws -> Victim {
    try run(
      scenario, environment: ["STALLMONITOR_REPEAT_WINDOW": "0s"].merging(environment) { $1 },
      program: Repository.file("Integrations/StallMonitorNIO/.build/debug/NIOVictim"), waitingFor: words,
      whileRunning: whileRunning)
  }
}

extension WrittenReport {
  /// The file of the responsible function.
  var file: String { culpritFrame?["file"] as? String ?? "" }
}
