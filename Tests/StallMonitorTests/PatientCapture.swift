import Glibc
import StallReport

@testable import StallCapture
@testable import StallMonitor

extension CaptureFailure {
  /// The machine gave the thread no processor, or took it away in the middle: another attempt may fare better.
  var isOfABusyMachine: Bool {
    switch self {
    case .noAnswer, .pending, .noProcessor, .moving, .busy: true
    default: false
    }
  }
}

extension ThreadCapture {
  /// Takes a thread's stack.
  ///
  /// It tries repeatedly while the machine is too busy, for five seconds at most.
  func captureWithPatience(
    _ probe: borrowing ThreadProbe, orWhile isToBeTakenAgain: (CaptureFailure) -> Bool = \.isOfABusyMachine
  ) -> ThreadSnapshot {
    var moment = capture(probe, stackEnd: 0)
    for _ in 0..<1000 {
      guard case .failure(let failure) = moment.backtrace, isToBeTakenAgain(failure) else { break }
      usleep(5000)
      moment = capture(probe, stackEnd: 0)
    }
    return moment
  }
}
