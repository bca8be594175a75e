import CUnwind
import Foundation
import FuzzUnwind
import TestSupport
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Garbage in registers, stacks and unwind tables ends in a short stack: no crash, and no end without bound.
  ///
  /// `make fuzz` looks further.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct UnwindGarbageTests {
    @Test func manySnapshots() {
      let count = TestMachine.isEmulated ? 1000 : LongForm.isOn ? 100_000 : 20_000
      let totals = fuzz_unwind_many(20_261_121, count)
      // Some of them must have led somewhere, or nothing was tried.
      #expect(totals.frames > count * 105 / 100, "\(totals.frames) frames, the slowest \(totals.slowest_ns / 1000) us")
    }

    @Test func seedsOfTheFuzzer() throws {
      let directory = Repository.root.appending(path: "Tests/Fuzz/seeds/unwind")
      let seeds = try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)
      #expect(!seeds.isEmpty)
      for seed in seeds {
        let bytes = try Data(contentsOf: seed)
        let frames = bytes.withUnsafeBytes {
          fuzz_unwind($0.baseAddress?.assumingMemoryBound(to: UInt8.self), $0.count)
        }
        #expect(frames > 0, "\(seed.lastPathComponent)")
      }
    }

    /// Starts a thread that calls a library's function in an endless loop; returns the thread and the function.
    private func repeating(
      _ function: String, of library: String
    ) throws -> (thread: OpaquePointer?, symbol: UnsafeMutableRawPointer) {
      let handle = try #require(dlopen(library, RTLD_NOW))
      let symbol = try #require(dlsym(handle, function))
      return (
        victim_moment_start(VICTIM_BODY, nil, unsafeBitCast(symbol, to: (@convention(c) () -> Void).self)), symbol
      )
    }

    /// The kernel puts such an address onto the stack for a tracer that waits for a function's return (uretprobes).
    @Test func returnAddressThatIsNoCode() throws {
      let fixtures = try SymbolFixtures()
      let library = try fixtures.clang(
        """
        #include <time.h>
        void spin(void) {
          void *volatile *slot = (void *volatile *)__builtin_frame_address(0) + 1, *own = *slot;
          *slot = (void *)0x7fffffffe000;
          nanosleep(&(struct timespec){.tv_nsec = 50000000}, 0);
          *slot = own;
        }
        """, ["-shared", "-fPIC", "-O0", "-fno-omit-frame-pointer"], name: "hidden.so")
      let (thread, symbol) = try repeating("spin", of: library)
      defer { victim_moment_stop(thread) }
      let capture = ThreadCapture(of: .own)
      let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
      let spin = UInt64(UInt(bitPattern: symbol))
      var met = 0
      for _ in 0..<20 where met == 0 {
        let backtrace = try capture.captureWithPatience(probe).backtrace.get()
        guard let last = backtrace.frames.last, (spin..<spin + 256).contains(last.address) else {
          #expect(!backtrace.frames.contains { $0.address == 0x7fff_ffff_e000 })
          continue
        }
        met += 1
        #expect(backtrace.isTruncated && backtrace.frames.count > 1)
      }
      #expect(met == 1)
    }

    /// Unwind tables whose expressions go round for ever, or call for more than there is.
    @Test(arguments: [
      "0x0f, 0x03, 0x2f, 0xfd, 0xff",  // the CFA by an expression that jumps to its own start
      "0x0f, 0x02, 0x12, 0x06",  // dereferences a stack that is empty
      "0x0f, 0xff, 0xff, 0x7f",  // an expression of 2 MiB
      "0x0b",  // restores a state that was never remembered
      "0x3f",  // no such instruction
    ])
    func corruptUnwindTable(instructions: String) throws {
      let fixtures = try SymbolFixtures()
      let library = try fixtures.clang(
        """
        #include <time.h>
        void spin(void) {
          __asm__ volatile(".cfi_escape \(instructions)");
          struct timespec start, now;
          clock_gettime(CLOCK_MONOTONIC, &start);
          do clock_gettime(CLOCK_MONOTONIC, &now);
          while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 20000000);
        }
        """, ["-shared", "-fPIC", "-O1"], name: "corrupt.so")
      let (thread, _) = try repeating("spin", of: library)
      defer { victim_moment_stop(thread) }
      let capture = ThreadCapture(of: .own)
      let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
      for _ in 0..<50 {
        let backtrace = try capture.captureWithPatience(probe).backtrace.get()
        #expect(!backtrace.frames.isEmpty)
      }
    }
  }
}
