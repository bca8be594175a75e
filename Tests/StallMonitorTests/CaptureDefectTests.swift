import CLinux
import CUnwind
import Foundation
import StallReport
import Synchronization
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// What went wrong once, or would go wrong on a hostile machine.
  ///
  /// What changes the whole process happens in one of its own.
  @Suite(.serialized, .timeLimit(.minutes(1)))
  struct CaptureDefectTests {
    #if arch(x86_64)
    /// `close` releases its descriptor before it fails with EINTR: a second call would close
    /// another thread's file.
    @Test func closeIsNotMadeAgain() {
      let eintr = UInt64(bitPattern: -Int64(EINTR))
      let read: [UInt8] = [0xb8, 0, 0, 0, 0, 0x0f, 0x05]
      let close: [UInt8] = [0xb8, 3, 0, 0, 0, 0x0f, 0x05]
      #expect(cunwind_is_interrupted_syscall(eintr, read))
      #expect(!cunwind_is_interrupted_syscall(eintr, close))
      #expect(!cunwind_is_interrupted_syscall(0, read))
    }
    #endif

    /// Unwinds a thread that is at `place`, with `words` from its stack pointer on, and garbage below.
    ///
    /// `framePointer` is an index into `words`; a negative one leads into the garbage, of which there is no copy.
    private func unwind(at place: UInt64, words: [UInt64], framePointer: Int = 0) -> (
      frames: [UInt64], result: cunwind_backtrace
    ) {
      #expect(cunwind_load() == nil)
      let unwinder = cunwind_unwinder_create(cunwind_own_process())
      defer { cunwind_unwinder_destroy(unwinder) }
      var memory = [UInt64](repeating: 0x4141_4141_4141, count: 16) + words
      return memory.withUnsafeMutableBytes { memory in
        let stack = memory.baseAddress! + 128
        let stackPointer = UInt64(UInt(bitPattern: stack))
        var snapshot = cunwind_snapshot()
        withUnsafeMutableBytes(of: &snapshot.registers) { registers in
          let frame = stackPointer &+ UInt64(bitPattern: Int64(8 * framePointer))
          registers.storeBytes(of: frame, toByteOffset: 8 * Int(CUNWIND_FRAME_POINTER), as: UInt64.self)
          registers.storeBytes(of: stackPointer, toByteOffset: 8 * Int(CUNWIND_STACK_POINTER), as: UInt64.self)
          registers.storeBytes(of: place, toByteOffset: 8 * Int(CUNWIND_PROGRAM_COUNTER), as: UInt64.self)
        }
        snapshot.known = 1 << CUNWIND_REGISTERS - 1
        snapshot.stack_address = stackPointer
        snapshot.stack_length = UInt64(8 * words.count)
        snapshot.stack = stack.assumingMemoryBound(to: UInt8.self)
        var frames = [cunwind_frame](repeating: cunwind_frame(), count: 8)
        let result = cunwind_unwind(unwinder, &snapshot, &frames, frames.count)
        return (frames.prefix(result.count).map(\.address), result)
      }
    }

    #if arch(x86_64)
    /// A perf sample has no memory below the stack pointer, and the tables say that popped registers are there.
    @Test func poppedRegistersAreKnown() {
      let (epilogue, caller) = (victim_epilogue_at(false), victim_epilogue_at(true))
      // The caller's frame pointer is at 4, and nobody has called it.
      let (frames, result) = unwind(at: epilogue, words: [caller, 1, 1, 1, 0, 0, 1, 1], framePointer: 4)
      #expect(frames == [epilogue, caller])
      #expect(result.end == CUNWIND_END_OUTERMOST && !result.read_live)
    }

    /// A thread that is met between a call and what it calls is its caller's; both linkers make such tables.
    @Test(arguments: ["lld", "bfd", "gold"])
    func entryOfALinkageTableIsNoFunction(linker: String) throws {
      let fixtures = try SymbolFixtures()
      let library = try fixtures.clang(
        "int getppid(void); int caller(void) { return getppid() + 1; }",
        ["-shared", "-fPIC", "-O1", "-fuse-ld=\(linker)", "-Wl,-z,lazy"], name: "plt-\(linker).so")
      let (returnAddress, entry) = try call(in: library)
      // `push %rax` before the call; nobody has called the caller.
      let words: [UInt64] = [returnAddress, 1, 0, 1]
      #expect(unwind(at: entry, words: words).frames == [returnAddress])
      #expect(unwind(at: returnAddress, words: Array(words.dropFirst())).frames == [returnAddress])
    }

    /// A guess of libunwind's that is not taken has read nothing: the stack is exact.
    ///
    /// It guesses by the frame pointer where there is no unwind information.
    @Test func discardedGuessHasReadNothing() throws {
      let fixtures = try SymbolFixtures()
      let source =
        #"__asm__(".text; .p2align 4; .hidden gap; gap: nop; nop; ret"); __attribute__((visibility("hidden"))) void gap(void); "#
        + #"int caller(void) { gap(); return 1; }"#
      let (returnAddress, gap) = try call(
        in: fixtures.clang(source, ["-shared", "-fPIC", "-O1"], name: "gap.so"))
      // `push %rax` before the call; nobody has called the caller.
      let (frames, result) = unwind(at: gap + 1, words: [returnAddress, 1, 0, 1], framePointer: -8)
      #expect(frames == [gap + 1, returnAddress])
      #expect(result.end == CUNWIND_END_OUTERMOST && !result.approximate && !result.read_live)
    }

    /// Loads a library whose function `caller` calls another: where that returns to, and what is called.
    private func call(in library: String) throws -> (returnAddress: UInt64, target: UInt64) {
      let handle = try #require(dlopen(library, RTLD_NOW))
      let start = UInt64(UInt(bitPattern: dlsym(handle, "caller")))
      let code = UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: UInt(start)), count: 16)
      let call = try #require(code.firstIndex(of: 0xe8))
      let returnAddress = start + UInt64(call) + 5
      let distance = code.loadUnaligned(fromByteOffset: call + 1, as: Int32.self)
      return (returnAddress, returnAddress &+ UInt64(bitPattern: Int64(distance)))
    }
    #endif

    /// A signal whose handler was removed would end the process.
    @Test func signalWithoutItsHandlerIsNotSent() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own, mayUsePerf: false)
        let thread = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        let other = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        _ = capture.capture(ThreadProbe(thread: victim_moment_id(other), of: .own), stackEnd: 0)
        for number in 1...64 { Glibc.signal(Int32(number), SIG_DFL) }
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        // A handler is put back, on whichever signal is free then.
        let backtrace = try capture.capture(probe, stackEnd: 0).backtrace.get()
        #expect(!backtrace.isTruncated)
        // And none where the host wants them all.
        for number in 1...64 { Glibc.signal(Int32(number), SIG_IGN) }
        #expect(throws: CaptureFailure.noSignal) { try capture.capture(probe, stackEnd: 0).backtrace.get() }
      }
    }

    @Test func signalThatTheKernelRefusesIsReportedAsSuch() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own, mayUsePerf: false)
        let thread = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(11), &none)  // RLIMIT_SIGPENDING
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        #expect(throws: CaptureFailure.refused) { try capture.capture(probe, stackEnd: 0).backtrace.get() }
      }
    }

    @Test func timerThatIsRefusedIsReportedAsSuch() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own, mayUsePerf: false)
        let thread = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        #expect(victim_refuse_timers())
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        #expect(throws: CaptureFailure.noTimer) { try capture.capture(probe, stackEnd: 0).backtrace.get() }
      }
    }

    @Test("a thread has a stack however many other threads were prepared after it")
    func manyPreparedThreads() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own, mayUsePerf: false)
        let thread = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        let arePrepared = DispatchSemaphore(value: 0)
        for _ in 0..<300 {
          Thread.detachNewThread {
            cunwind_prepare_thread_for_timer()
            arePrepared.signal()
            sleep(600)
          }
        }
        for _ in 0..<300 { arePrepared.wait() }
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        #expect(throws: Never.self) { try capture.captureWithPatience(probe).backtrace.get() }
      }
    }

    /// Each has a place of its own, also if all are taken at once.
    @Test func threadsThatArePreparedAtOnce() async {
      await #expect(processExitsWith: .success) {
        let (ready, begin) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (prepared, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let ids = Mutex<[Int32]>([])
        for _ in 0..<300 {
          for _ in 0..<8 {
            Thread.detachNewThread {
              ready.signal()
              begin.wait()
              cunwind_prepare_thread_for_timer()
              ids.withLock { $0.append(clinux_gettid()) }
              prepared.signal()
              end.wait()
              cunwind_thread_ends()
              ready.signal()
            }
          }
          for _ in 0..<8 { ready.wait() }
          for _ in 0..<8 { begin.signal() }
          for _ in 0..<8 { prepared.wait() }
          #expect(ids.withLock { $0.allSatisfy(cunwind_thread_is_prepared) })
          ids.withLock { $0 = [] }
          for _ in 0..<8 { end.signal() }
          for _ in 0..<8 { ready.wait() }
        }
      }
    }

    /// A second signal is not queued behind one that the thread has not taken yet.
    @Test func pendingSignalIsSeen() async {
      await #expect(processExitsWith: .success) {
        let signal = cunwind_timer_signal(0)
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, signal)
        let probe = ThreadProbe(thread: clinux_gettid(), of: .own)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        #expect(probe.signalState().map { $0.isBlocked(signal) || $0.isPending(signal) } == false)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        pthread_kill(pthread_self(), signal)
        #expect(probe.signalState().map { $0.isBlocked(signal) && $0.isPending(signal) } == true)
      }
    }

    /// Each capture of one stall reads the stack beyond the copy again.
    @Test func stackBeyondTheCopyIsNotKept() throws {
      let capture = ThreadCapture(of: .own)
      let reader = FarReader()
      defer { reader.stop() }
      for round in 0..<6 {
        let caller = reader.begin(round % 2 == 1 ? .second : .first)
        let backtrace = try capture.captureWithPatience(ThreadProbe(thread: reader.id, of: .own)).backtrace.get()
        #expect(!backtrace.isTruncated)
        let isInside = backtrace.frames.contains { $0.address > caller && $0.address < caller + 64 }
        #expect(isInside, "round \(round): the other caller's frame")
        reader.end()
      }
    }

    #if arch(x86_64)
    /// Where the prologues of Swift's functions leave RSP below RBP: of an ordinary function, and of an asynchronous one.
    @Test func depthOfAPrologue() {
      let ordinary: [UInt8] = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18]
      let asynchronous: [UInt8] = [0x55, 0x41, 0x56, 0x48, 0x8d, 0x6c, 0x24, 0x08, 0x53, 0x48, 0x83, 0xec, 0x18]
      #expect(cunwind_prologue_depth(ordinary, ordinary.count) == 0x20)
      #expect(cunwind_prologue_depth(asynchronous, asynchronous.count) == 0x28)
      #expect(cunwind_prologue_depth([0x48, 0x0f, 0xba, 0xed, 0x3c] + asynchronous, 18) == 0x28)
    }
    #endif

    /// The frame pointer of a blocked thread's function is found by the call to it, whatever its caller keeps in RBP, and
    /// whatever calls that are over have left on the stack.
    @Test(arguments: [FarReader.Caller.number, .pointer])
    fileprivate func callerThatKeepsANumberInRBP(chosen: FarReader.Caller) throws {
      let capture = ThreadCapture(of: .own)
      let reader = FarReader()
      defer { reader.stop() }
      let caller = reader.begin(chosen)
      let backtrace = try capture.captureWithPatience(ThreadProbe(thread: reader.id, of: .own)).backtrace.get()
      #expect(!backtrace.isTruncated)
      #if arch(x86_64)
      #expect(backtrace.isApproximate, "it was scanned for")
      #endif
      #expect(backtrace.frames.contains { $0.address == caller }, "the caller's frame is left out")
      reader.end()
    }

    /// As when a library is unloaded before its frame is unwound: the thread has continued since.
    ///
    /// A busy machine may give the thread no processor while it is captured again; then another thread is tried.
    @Test func stackThatWasLostInCodeOfNoModuleIsTakenAgain() throws {
      let isWhole = try (0..<5).contains { _ in
        let thread = victim_moment_start(VICTIM_FOREIGN_CODE, { cunwind_prepare_thread_for_timer() }, nil)
        defer { victim_moment_stop(thread) }
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        let backtrace = try ThreadCapture(of: .own, mayUsePerf: false).captureWithPatience(probe).backtrace.get()
        return !backtrace.isTruncated
          && backtrace.frames.suffix(3).contains { $0.address == victim_moment_outermost(thread) }
      }
      #expect(isWhole)
    }

    /// With nothing to go by, a stack is cut short, and not taken to be whole.
    @Test func lostStackIsNotWhole() throws {
      #expect(cunwind_load() == nil)
      let unwinder = try #require(cunwind_unwinder_create(cunwind_own_process()))
      defer { cunwind_unwinder_destroy(unwinder) }
      var bytes = [UInt8](repeating: 0, count: 4096)
      var snapshot = cunwind_snapshot()
      var frame = [cunwind_frame](repeating: cunwind_frame(), count: 16)
      let numbers = [CUNWIND_PROGRAM_COUNTER, CUNWIND_STACK_POINTER, CUNWIND_FRAME_POINTER].map { Int($0) }
      for known in [numbers.prefix(2), numbers.prefix(3), Array(0..<Int(CUNWIND_REGISTERS))[...]] {
        let backtrace = bytes.withUnsafeMutableBufferPointer { stack in
          snapshot.stack = stack.baseAddress
          snapshot.stack_address = 0x1000_0000
          snapshot.stack_length = UInt64(stack.count)
          snapshot.setRegister(Int(CUNWIND_STACK_POINTER), 0x1000_0080)
          // Readable, like code made at run time, and without unwind information.
          snapshot.setRegister(Int(CUNWIND_PROGRAM_COUNTER), UInt64(UInt(bitPattern: stack.baseAddress)))
          snapshot.known = known.reduce(0) { $0 | 1 << UInt64($1) }
          return cunwind_unwind(unwinder, &snapshot, &frame, frame.count)
        }
        #expect(backtrace.end == CUNWIND_END_LOST, "registers \(known)")
        #expect(backtrace.is_outside_modules)
      }
    }

    /// Two captures at once, in one process, share one copy of a stack.
    @Test func capturesAtOnceDoNotMix() {
      let shallow = VictimThread(depth: 3, leaf: .poll)
      let deep = VictimThread(depth: 60, leaf: .spin)
      let counts = Mutex<[Int32: Set<Int>]>([:])
      let done = Atomic<Int>(0)
      for id in [shallow.id, deep.id] {
        Self.detach {
          let capture = ThreadCapture(of: .own)
          let probe = ThreadProbe(thread: id, of: .own)
          for _ in 0..<300 {
            let frames = (try? capture.captureWithPatience(probe).backtrace.get())?.frames.count ?? -1
            counts.withLock { _ = $0[id, default: []].insert(frames / 30) }
          }
          done.add(1, ordering: .releasing)
        }
      }
      while done.load(ordering: .acquiring) < 2 { usleep(1000) }
      #expect(counts.withLock { $0[shallow.id] } == [0])
      #expect(counts.withLock { $0[deep.id] } == [2])
      shallow.release()
      deep.release()
    }

    /// A fork in the middle of a capture leaves its child a claim that is never released.
    @Test func childOfAForkCanCapture() {
      while !cunwind_snapshot_claim(cunwind_own_process()) { usleep(100) }
      defer { cunwind_snapshot_release(cunwind_own_process()) }
      #expect(!cunwind_snapshot_claim(cunwind_own_process()))
      #expect(victim_child_says { cunwind_snapshot_claim(cunwind_own_process()) })
    }

    /// What runs below the alternate stack must not be written to.
    @Test func alternateStackHasAGuard() throws {
      let below = Mutex<(UInt, Int32)>((0, 0))
      let done = Atomic<Bool>(false)
      Self.detach {
        cunwind_prepare_thread_for_timer()
        var stack = stack_t()
        sigaltstack(nil, &stack)
        var ends: [Int32] = [0, 0]
        pipe(&ends)
        let address = UInt(bitPattern: stack.ss_sp)
        // The kernel says whether it can be read.
        let result = write(ends[1], UnsafeRawPointer(bitPattern: address - 1), 1)
        let code = result < 0 ? errno : 0
        below.withLock { $0 = (address, code) }
        done.store(true, ordering: .releasing)
      }
      while !done.load(ordering: .acquiring) { usleep(1000) }
      #expect(below.withLock { $0.0 } != 0)
      #expect(below.withLock { $0.1 } == EFAULT)
    }

    /// A host that closes all descriptors at its start, as daemons do, and opens others of the same numbers.
    @Test func anothersDescriptorIsNotClosed() async {
      await #expect(processExitsWith: .success) {
        let free = open("/dev/null", O_RDONLY)
        close(free)
        do {
          let file = ProcFile("/proc/self/stat")
          close(free)
          #expect(open("/dev/zero", O_RDONLY) == free)
          _ = consume file
        }
        #expect(fcntl(free, F_GETFD) >= 0)
        #expect(clinux_duplicate(free) >= 0)
      }
    }

    @Test func readingIsForbiddenByAFilter() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own)
        capture.prepareThread()
        try #require(victim_forbid_process_vm_readv(false))
        try CaptureDefectTests.expectStacks(capture)
      }
    }

    /// A filter that kills: installed by the host after the watch began, and seen when the stall begins.
    @Test func readingIsDeadlyUnderAFilter() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own)
        try #require(victim_forbid_process_vm_readv(true))
        capture.flush()
        try CaptureDefectTests.expectStacks(capture)
      }
    }

    /// A process that drops root, and can open none of its own files any more.
    @Test(.enabled(if: getuid() == 0, "only root can give up root"))
    func processThatIsNotDumpable() async {
      await #expect(processExitsWith: .success) {
        let capture = ThreadCapture(of: .own)
        capture.prepareThread()
        let thread = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
        let probe = ThreadProbe(thread: victim_moment_id(thread), of: .own)
        try #require(setuid(65534) == 0)
        try #require(!victim_is_dumpable())
        try #require(victim_forbid_process_vm_readv(false))
        capture.flush()
        #expect(try !capture.captureWithPatience(probe).backtrace.get().isTruncated)
      }
    }

    fileprivate static func expectStacks(_ capture: ThreadCapture) throws {
      let poll = VictimThread(depth: 40, leaf: .poll)
      let blocked = try capture.captureWithPatience(ThreadProbe(thread: poll.id, of: .own)).backtrace.get()
      #expect(!blocked.isTruncated && blocked.frames.count > 40)
      let spin = VictimThread(depth: 40, leaf: .spin, isPrepared: true)
      let running = try capture.captureWithPatience(ThreadProbe(thread: spin.id, of: .own)).backtrace.get()
      #expect(!running.isTruncated && running.frames.count > 40)
    }

    /// Runs `body` on a thread of its own.
    private static func detach(_ body: @escaping @Sendable () -> Void) {
      final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
      }
      var handle = pthread_t()
      pthread_create(
        &handle, nil,
        { argument in
          Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue().run()
          return nil
        }, Unmanaged.passRetained(Body(body)).toOpaque())
      pthread_detach(handle)
    }
  }
}

/// A thread that reads from a pipe, some stack below one of several callers.
private final class FarReader: @unchecked Sendable {  // Set before the thread is shared; the rest is atomic.
  private var ends: [Int32] = [0, 0]
  private var handle = pthread_t()
  private let thread = Atomic<Int32>(0)
  private let wish = Atomic<Int>(0)  // A caller's, or -1: stop
  private let caller = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)

  enum Caller: Int {
    /// These have 1 MiB of stack below them.
    case first = 1
    case second
    /// They keep a number in RBP.
    case number
    case pointer
  }

  init() {
    pipe(&ends)
    pthread_create(
      &handle, nil,
      { argument in
        Unmanaged<FarReader>.fromOpaque(argument!).takeUnretainedValue().run()
        return nil
      }, Unmanaged.passUnretained(self).toOpaque())
    while id == 0 { sched_yield() }
  }

  var id: Int32 { thread.load(ordering: .acquiring) }

  private func run() {
    thread.store(clinux_gettid(), ordering: .releasing)
    while true {
      let wished = wish.exchange(0, ordering: .acquiringAndReleasing)
      if wished < 0 { return }
      switch Caller(rawValue: wished) {
      case .number: victim_read_below_a_number(ends[0], 1000, caller)
      case .pointer: victim_read_below_old_frames(ends[0], 1000, caller)
      case .some(let far): victim_read_far_below(ends[0], far == .second, caller)
      case nil: usleep(100)
      }
    }
  }

  /// The address in the caller, once the thread blocks.
  func begin(_ chosen: Caller) -> UInt64 {
    wish.store(chosen.rawValue, ordering: .releasing)
    let probe = ThreadProbe(thread: id, of: .own)
    for _ in 0..<100_000 {
      if case .blocked(let call) = probe.activity(), call.number == SYS_read { break }
      usleep(100)
    }
    return caller.pointee
  }

  func end() {
    var byte: UInt8 = 0
    write(ends[1], &byte, 1)
    let probe = ThreadProbe(thread: id, of: .own)
    while case .blocked(let call) = probe.activity(), call.number == SYS_read { usleep(100) }
  }

  func stop() {
    wish.store(-1, ordering: .releasing)
    pthread_join(handle, nil)
    close(ends[0])
    close(ends[1])
    caller.deallocate()
  }
}
