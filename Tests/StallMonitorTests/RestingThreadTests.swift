import Glibc
import Testing

@testable import StallCapture
@testable import StallMonitor

/// When a loop is asked by a beat, with what the kernel says handed in.
struct RestingThreadTests {
  #if arch(x86_64)
  private static let (epollPwait, clockNanosleep): (Int64, Int64) = (281, 230)
  #else
  private static let (epollPwait, clockNanosleep): (Int64, Int64) = (22, 115)
  #endif
  private static let waiting = ThreadProbe.Activity.blocked(
    ThreadProbe.BlockedCall(
      number: epollPwait, arguments: (7, 0x7f00, 64, UInt64.max, 0, 0), stackPointer: 0x7ff0, programCounter: 0x1000))
  // In the same call for another descriptor: a handler's own wait.
  private static let elsewhere = ThreadProbe.Activity.blocked(
    ThreadProbe.BlockedCall(
      number: epollPwait, arguments: (9, 0x7f00, 64, UInt64.max, 0, 0), stackPointer: 0x7f00, programCounter: 0x1000))
  private static let sleeping = ThreadProbe.Activity.blocked(
    ThreadProbe.BlockedCall(number: clockNanosleep, stackPointer: 0x7f00, programCounter: 0x2000))

  private func findings(_ looks: [(UInt64, ThreadProbe.Activity)]) -> [RestingThread.Finding] {
    var thread = RestingThread(id: getpid(), of: .own)
    return looks.map { thread.find(slices: $0.0, place: $0.1) }
  }

  @Test func threadThatDidNothingButAnswerIsAskedOnce() {
    let looks = (0..<5).map { (UInt64($0 == 0 ? 10 : 11), Self.waiting) }
    #expect(findings(looks) == [.mayBeBusy, .isAtRest, .isAtRest, .isAtRest, .isAtRest])
  }

  @Test func threadThatHasRunIsAskedAgain() {
    #expect(
      findings([(10, Self.waiting), (11, Self.waiting), (12, Self.waiting), (13, Self.waiting), (13, Self.waiting)])
        == [.mayBeBusy, .isAtRest, .mayBeBusy, .isAtRest, .isAtRest])
  }

  @Test func threadThatDidMoreThanAnswerIsAskedAgain() {
    #expect(
      findings([(10, Self.waiting), (13, Self.waiting), (14, Self.waiting)]) == [.mayBeBusy, .mayBeBusy, .isAtRest])
  }

  @Test func threadThatStandsSomewhereElseIsAskedEachTime() {
    #expect(findings([(10, Self.waiting), (11, Self.elsewhere)]) == [.mayBeBusy, .mayBeBusy])
    #expect(findings([(10, Self.sleeping), (11, Self.sleeping), (12, Self.sleeping)]).allSatisfy { $0 == .mayBeBusy })
    #expect(findings([(10, .running), (10, .running)]).allSatisfy { $0 == .mayBeBusy })
  }

  @Test func kernelThatDoesNotCountLeavesTheBeats() {
    #expect(findings([(0, Self.waiting), (0, Self.waiting), (0, Self.waiting)]).allSatisfy { $0 == .mayBeBusy })
  }
}
