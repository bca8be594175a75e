import StallCapture
import StallDetection

extension ThreadActivity {
  /// What the kernel shows of a thread.
  init(_ activity: ThreadProbe.Activity) {
    switch activity {
    case .running: self = .running
    case .blocked(let call): self = call.number < 0 ? .outsideCall : .inCall(SystemCall(call, in: .own).cause)
    case .unknown: self = .unknown
    }
  }
}
