import StallCapture
import StallReport

extension Verdict {
  /// Returns what a thread was seen doing at one moment, as a cause.
  static func cause(of activity: ThreadProbe.Activity, usage: ResourceUsage?) -> Cause {
    switch activity {
    case .unknown: return .unknown
    case .blocked(let call):
      // Outside a system call a thread waits for a page; that it was read from disk is what the fault count says.
      if call.number < 0 { return (usage?.majorFaults ?? 0) > 0 ? .fault : .unknown }
      return SystemCall(call, in: .own).cause
    case .running: return ready(usage) ?? .running
    }
  }
}
