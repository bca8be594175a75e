import CUnwind
import Foundation
import StallReport
import TestSupport
import Testing
import VictimC
import VictimCxx

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Captured in the middle of what captures usually break on: each stack whole, none lost, and the thread none the wiser.
  ///
  /// Each thread is captured 400 times, and 2000 times by `make test-long`; or as often as `STALLTEST_CAPTURES` says.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct CapturedInsideTests {
    static let captures =
      ProcessInfo.processInfo.environment["STALLTEST_CAPTURES"].flatMap { Int($0) }
      ?? (LongForm.isOn ? 2000 : 400)

    /// On aarch64 the kernel's code for the clock, in which some of these are often met, has no unwind tables.
    static var clockHasNoTables: Bool {
      #if arch(arm64)
      true
      #else
      false
      #endif
    }

    /// What came of many captures of one thread.
    private struct Tally {
      let captures: Int
      var whole = 0
      var truncated = 0
      var approximate = 0
      var approximateOfRunning = 0
      /// A call through a null pointer is in it, and who has called.
      var called = 0
      /// Its outermost frame is not the thread's.
      var strayed = 0
      /// A signal's handler is in it, and what that has interrupted: not a call.
      var interrupted = 0
      var running = 0
      var deepest = 0
      var shallowest = Int.max
      var lost: [CaptureFailure: Int] = [:]
      var example: [String] = []

      /// Whether each capture has the whole stack, or says that the thread could not be sampled.
      ///
      /// A timer leaves a thread alone that it meets in the kernel, where some of these are half of their time. A perf event does not, and
      /// a thread whose signals are blocked is captured again until they are not: there may be one in a hundred.
      func isWholeOrRefused(by way: Way, truncated allowed: Int = 0) -> Bool {
        let refused = lost[.signalBlocked, default: 0] + lost[.insideCall, default: 0]
        return whole + refused + min(truncated, allowed) == captures
          && refused <= (way == .timer ? captures / 2 : captures / 100)
      }

      /// The module and the offset of a frame, for a failing test's message.
      static func name(_ frame: Backtrace.Frame) -> String {
        var module = cunwind_module()
        guard cunwind_find_module(cunwind_own_process(), frame.address, &module) else {
          return String(frame.address, radix: 16)
        }
        let path = withUnsafeBytes(of: &module.path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return "\(path.split(separator: "/").last ?? "")+\(String(frame.address - module.load_bias, radix: 16))"
      }

      mutating func add(_ moment: ThreadSnapshot, outermost: UInt64) {
        if moment.activity == .running { running += 1 }
        switch moment.backtrace {
        case .failure(let failure): lost[failure, default: 0] += 1
        case .success(let backtrace):
          // The thread's function returns into start_thread, which clone3 has begun.
          let reaches = backtrace.frames.suffix(3).contains { $0.address == outermost }
          if backtrace.isTruncated { truncated += 1 }
          if backtrace.isApproximate { approximate += 1 }
          if backtrace.isApproximate, moment.activity == .running { approximateOfRunning += 1 }
          if !reaches { strayed += 1 }
          // The handler returns to one, and the other was interrupted.
          let (places, caller) = (backtrace.frames.map(\.address), victim_caller_of_nothing())
          if let nothing = places.firstIndex(of: 0), let next = places[(nothing + 1)...].first, next > caller,
            next < caller + 64
          {
            called += 1
          }
          if backtrace.frames.dropFirst().count(where: { !$0.isReturnAddress }) == 2 { interrupted += 1 }
          if reaches, !backtrace.isTruncated {
            whole += 1
          }
          if !reaches || backtrace.isTruncated || backtrace.isApproximate, example.isEmpty {
            example = backtrace.frames.map(Self.name)
          }
          deepest = max(deepest, backtrace.frames.count)
          shallowest = min(shallowest, backtrace.frames.count)
        }
      }

      var text: String {
        "\(whole) whole, \(truncated) truncated, \(strayed) strayed, \(interrupted) interrupted, \(called) called, \(approximate) approximate, "
          + "\(running) running, lost \(lost), \(example)"
      }
    }

    /// How running threads are captured.
    enum Way: CaseIterable, Sendable {
      case perf, timer

      /// A timer's sample takes a tick of the kernel's clock.
      var captures: Int { self == .perf ? CapturedInsideTests.captures : max(CapturedInsideTests.captures / 10, 1) }
    }

    private func capture(_ moment: victim_moment, by way: Way, body: (@convention(c) () -> Void)? = nil) -> Tally {
      let capture = ThreadCapture(of: .own, mayUsePerf: way == .perf)
      let thread = victim_moment_start(moment, { cunwind_prepare_thread_for_timer() }, body)
      defer { #expect(victim_moment_stop(thread) > 0) }
      let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
      let outermost = victim_moment_outermost(thread)
      var tally = Tally(captures: way.captures)
      for _ in 0..<way.captures {
        // A machine too busy for a capture is not what is tested. In the handler all signals are blocked.
        let moment = capture.captureWithPatience(probe) { $0.isOfABusyMachine || $0 == .signalBlocked }
        tally.add(moment, outermost: outermost)
      }
      return tally
    }

    private func expectAllWhole(_ tally: Tally, by way: Way) {
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      // A perf event samples at any instruction, also where a rule is marked as a guess.
      #expect(tally.approximate <= (way == .perf ? tally.captures / 100 : 0), "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func memoryAllocation(way: Way) { expectAllWhole(capture(VICTIM_MALLOC, by: way), by: way) }

    @Test(arguments: Way.allCases)
    func loadingOfLibraries(way: Way) {
      let tally = capture(VICTIM_DLOPEN, by: way)
      // It is in the kernel most of the time, where the timer leaves it alone.
      let unreachable = way == .timer ? tally.lost[.insideCall, default: 0] : 0
      // A library that is unloaded after the sample takes its unwind tables along: such a stack is truncated, and says so.
      // On an emulated processor the search for the caller of a blocked call may reach its time limit.
      #expect(tally.whole + tally.truncated + unreachable == tally.captures, "\(tally.text)")
      #expect(tally.truncated < tally.captures / (TestMachine.isEmulated ? 2 : 10), "\(tally.text)")
      // Of a blocked thread, the loader's frame pointer is searched for. All captures may meet one read that waits for the disk.
      #expect(tally.approximateOfRunning <= tally.running / (way == .timer ? 2 : 10), "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func cxxExceptionInFlight(way: Way) {
      expectAllWhole(capture(VICTIM_BODY, by: way, body: victim_cxx_throw_once), by: way)
    }

    @Test(arguments: Way.allCases)
    func swiftErrorInFlight(way: Way) {
      let tally = capture(VICTIM_BODY, by: way, body: { SwiftThrower.throwAndCatch() })
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      // Taken in helpers of the Swift compiler's that have no unwind information.
      #expect(tally.approximate <= max(tally.captures / 10, 4), "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func vfork(way: Way) {
      let tally = capture(VICTIM_VFORK, by: way)
      // On aarch64 the C library's vfork calls a function first, and has its own return address in X13 meanwhile, which no
      // function preserves.
      let allowed = TestMachine.isEmulated ? max(tally.captures / 20, 1) : 0
      #expect(tally.isWholeOrRefused(by: way, truncated: allowed), "\(tally.text)")
      #expect(tally.approximate == 0, "\(tally.text)")
    }

    /// On x86_64 the C library has no unwind information for the instruction at which the parent waits.
    ///
    /// On aarch64 the caller is found behind two jumps.
    @Test("a thread that spawns a process", arguments: Way.allCases)
    func spawn(way: Way) {
      let tally = capture(VICTIM_SPAWN, by: way)
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      #expect(tally.approximate == 0, "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func handlerOfTheHost(way: Way) {
      let tally = capture(VICTIM_HANDLER, by: way)
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      // A perf event may meet the kernel while it sets the handler up, or takes it down.
      #expect(
        Self.clockHasNoTables || tally.approximate <= (way == .perf ? tally.captures / 100 : 0), "\(tally.text)")
      #expect(tally.interrupted > tally.captures / 2, "\(tally.text)")
    }

    @Test(arguments: [VICTIM_HANDLER_ON_A_STACK_BELOW, VICTIM_HANDLER_ON_A_STACK_ABOVE], Way.allCases)
    func handlerOnAnAlternateStack(moment: victim_moment, way: Way) {
      let tally = capture(moment, by: way)
      // The interrupted stack is not the one that was copied: it is read afterwards, and the thread
      // may have continued three times in a row.
      #expect(tally.whole >= tally.captures - 20, "\(tally.text)")
      #expect(tally.strayed - tally.truncated <= 20, "\(tally.text)")
      #expect(tally.interrupted > tally.captures / (TestMachine.isEmulated ? 5 : 2), "\(tally.text)")
    }

    /// As in a crash reporter that hangs: the call to address 0 has no code, but its caller is
    /// known.
    @Test(
      arguments: [
        VICTIM_CALL_OF_NOTHING, VICTIM_CALL_OF_NOTHING_WITH_A_STACK_BELOW, VICTIM_CALL_OF_NOTHING_WITH_A_STACK_ABOVE,
      ], Way.allCases)
    func handlerOfACallThroughANullPointer(moment: victim_moment, way: Way) {
      let tally = capture(moment, by: way)
      // It may be met on its way back, between two stacks.
      #expect(tally.whole >= tally.captures - 20, "\(tally.text)")
      #expect(tally.interrupted > tally.captures / (TestMachine.isEmulated ? 5 : 2), "\(tally.text)")
      #expect(tally.called > tally.captures / 2, "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func nearlyFullStack(way: Way) {
      let tally = capture(VICTIM_FULL_STACK, by: way)
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      #expect(tally.running > 0, "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func allSignalsBlocked(way: Way) {
      let tally = capture(VICTIM_SIGNALS_BLOCKED, by: way)
      #expect(tally.whole + tally.lost[.signalBlocked, default: 0] == tally.captures, "\(tally.text)")
      // It alternates, so it is most often met asleep and read; one that only runs is `threadWithItsSignalsBlockedIsNotSignalled`.
      #expect(tally.whole > 0, "\(tally.text)")
    }

    @Test(arguments: Way.allCases)
    func deepRecursion(way: Way) {
      let tally = capture(VICTIM_DEEP, by: way)
      #expect(tally.isWholeOrRefused(by: way), "\(tally.text)")
      // A perf event's sample has 64 KiB of stack; the rest is read afterwards.
      #expect(way == .perf || Self.clockHasNoTables || tally.approximate == 0, "\(tally.text)")
      // Ten samples may all be of the shallower ones.
      let deepest = tally.captures > 10 ? 1300 : 1000
      #expect(tally.shallowest > 1000 && tally.deepest > deepest, "\(tally.shallowest) to \(tally.deepest) frames")
    }

    @Test func threadsThatComeAndGo() {
      let crowd = victim_crowd_start(8)
      defer { victim_crowd_stop(crowd) }
      let capture = ThreadCapture(of: .own)
      var stacks = 0
      var truncated: [[String]] = []
      var lost: [CaptureFailure: Int] = [:]
      // A capture takes many system calls, which are 45 times slower on an emulated processor.
      let deadline = MonotonicClock.now() + (TestMachine.isEmulated ? 30 : 5) * 1_000_000_000
      var round = 0
      while stacks < Self.captures, MonotonicClock.now() < deadline {
        round += 1
        switch capture.capture(ThreadProbe(thread: victim_crowd_id(crowd, round), of: .own), stackEnd: 0).backtrace {
        case .success(let backtrace):
          stacks += 1
          if backtrace.isTruncated { truncated.append(backtrace.frames.map(Tally.name)) }
        case .failure(let failure): lost[failure, default: 0] += 1
        }
      }
      // An ending thread gives its stack back. On an emulated processor the search for that call's caller may reach its time limit.
      let isExpected = { (frames: [String]) in TestMachine.isEmulated && frames.count == 1 }
      #expect(truncated.allSatisfy(isExpected), "\(stacks) stacks, lost \(lost), \(truncated)")
      #expect(truncated.count <= stacks / 10)
      #expect(stacks > (TestMachine.isEmulated ? 10 : 100), "lost \(lost)")
      // Ended before or during the capture; or just about to begin or end, with all signals blocked
      // by the C library; or in the kernel for all of the capture's time, on a busy machine.
      let named: Set<CaptureFailure> = [
        .threadEnded, .signalBlocked, .moving, .noAnswer, .noProcessor, .pending, .insideCall,
      ]
      #expect(Set(lost.keys).isSubset(of: named), "\(lost)")
    }

    /// A library whose constructor sleeps holds the loader's lock meanwhile: nobody may wait for it.
    @Test func anotherThreadHoldsTheLoaderLock() throws {
      let fixtures = try SymbolFixtures()
      let library = try fixtures.clang(
        """
        #include <time.h>
        volatile int constructed;
        __attribute__((constructor)) static void sleeps(void) {
          constructed = 1;
          struct timespec time = {1, 0};
          nanosleep(&time, 0);
        }
        """, ["-shared", "-fPIC"], name: "slow.so")
      let capture = ThreadCapture(of: .own)
      let thread = victim_moment_start(VICTIM_DEEP, nil, nil)
      defer { victim_moment_stop(thread) }
      let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
      let loader = Thread { dlopen(library, RTLD_NOW) }
      loader.start()
      let start = MonotonicClock.now()
      var slowest: UInt64 = 0
      var whole = 0
      var taken = 0
      while MonotonicClock.now() - start < 700_000_000 {
        let before = MonotonicClock.now()
        capture.flush()
        let backtrace = try capture.captureWithPatience(probe).backtrace.get()
        slowest = max(slowest, MonotonicClock.now() - before)
        taken += 1
        if !backtrace.isTruncated { whole += 1 }
      }
      #expect(whole == taken)
      // One that waited for the lock would have been the only one.
      #expect(taken > (TestMachine.isEmulated ? 1 : 5), "\(taken) captures, the slowest \(slowest / 1_000_000) ms")
      while !loader.isFinished { usleep(10_000) }
    }
  }
}

/// Swift errors that pass through some frames.
private enum SwiftThrower {
  struct Failure: Error { var depth: Int }

  @inline(never)
  static func descend(_ depth: Int) throws -> Int {
    let text = [depth, depth + 1]
    if depth == 0 { throw Failure(depth: text[1]) }
    return try descend(depth - 1) + text.count
  }

  @inline(never)
  static func throwAndCatch() {
    do { _ = try descend(10) } catch {}
  }
}
