import Glibc
import StallReport

@testable import StallCapture
@testable import StallMonitor

/// The machine that runs the tests.
enum TestMachine {
  /// Whether its processor is emulated: system calls take 50 us, and the first names of a process a second.
  ///
  /// `scripts/test-aarch64` sets the variable.
  static let isEmulated = getenv("TEST_MACHINE").map { String(cString: $0) } == "emulated"
}

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
