import CLinux
import CUnwind
import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallCapture
@testable import StallMonitor
@testable import StallNaming

/// Threads of another process, which is not stopped and notices nothing.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct OtherProcessTests {
  private let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  /// Its second thread reads a byte, or runs until there is one, in functions that are known; then it says how that ended.
  private static let source = """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <poll.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #define FUNCTION __attribute__((noinline, used))
    volatile int is_over, sink;
    static int computes;
    FUNCTION long wait_for_backend(char *byte) { return read(0, byte, 1) + 0 * ++sink; }
    FUNCTION long compute_checksum(char *byte) {
      while (!is_over) sink++;
      *byte = 0;
      return 1;
    }
    FUNCTION long handle_request(char *byte, int depth) {
      if (depth > 0) return handle_request(byte, depth - 1) + 0 * ++sink;
      return (computes ? compute_checksum(byte) : wait_for_backend(byte)) + 0 * ++sink;
    }
    FUNCTION void *serve_requests(void *unused) {
      char byte = 0;
      printf("%d\\n", (int)syscall(SYS_gettid));
      fflush(stdout);
      errno = 0;
      long count = handle_request(&byte, 3);
      printf("%ld %d\\n", count, errno);
      fflush(stdout);
      return unused;
    }
    int main(int count, char **arguments) {
      pthread_t thread;
      char byte;
      computes = count > 1 && strcmp(arguments[1], "compute") == 0;
      pthread_create(&thread, NULL, serve_requests, NULL);
      if (computes) is_over = read(0, &byte, 1) == 1;
      pthread_join(thread, NULL);
      return 0;
    }

    """

  /// A child, which writes lines and is written to.
  private final class Child {
    let process: Process
    private let (input, output) = (Pipe(), Pipe())

    init(_ program: String, _ arguments: [String] = []) throws {
      process = try Program.start(program, arguments, input: input, output: output)
    }

    deinit {
      if process.isRunning { kill() }
    }

    var id: Int32 { process.processIdentifier }

    func line() -> String {
      var text = ""
      while !text.hasSuffix("\n") {
        let data = output.fileHandleForReading.readData(ofLength: 1)
        if data.isEmpty { break }
        text += String(decoding: data, as: UTF8.self)
      }
      return text.trimmingCharacters(in: .newlines)
    }

    func number(radix: Int = 10) throws -> UInt64 { try #require(UInt64(line(), radix: radix)) }

    func write(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }

    func kill() {
      Glibc.kill(id, SIGKILL)
      process.waitUntilExit()
    }
  }

  /// The functions of the program in a stack, and the modules of all frames.
  private func functions(
    of backtrace: Backtrace, _ handle: ProcessHandle, program: String
  ) throws -> (names: [String?], modules: [LoadedModule?]) {
    var map = ModuleMap(executablePath: program, of: handle)
    let symbolizer = Symbolizer(debugRoots: [])
    let modules = backtrace.frames.map { map.module(at: $0.lookupAddress) }
    var names: [String?] = []
    for (frame, module) in zip(backtrace.frames, modules) {
      guard let module, module.isMainExecutable else { continue }
      let offset = frame.lookupAddress - module.loadBias
      let answer = symbolizer.symbolize(module: module.identity, address: offset, deadline: SymbolClock.generous())
      let name = try #require(answer.frames.last?.linkageName)
      // The unwind table and the program's file agree.
      let start = try fixtures.address(name, in: program) + module.loadBias
      #expect(handle.functionStart(frame.lookupAddress) == start)
      names.append(name)
    }
    return (names, modules)
  }

  private static let chain: [String?] = Array(repeating: "handle_request", count: 4) + ["serve_requests"]

  private func waitUntilBlocked(_ probe: borrowing ThreadProbe) throws {
    var found = ThreadProbe.Activity.unknown
    for _ in 0..<30_000 {
      found = probe.activity()
      if case .blocked(let call) = found, KernelCall(call.number)?.name == "read" { return }
      usleep(1000)
    }
    Issue.record("the thread does not wait: \(found)")
  }

  @Test(arguments: [["-O0"], ["-O2"], ["-O2", "-no-pie"], ["-O1", "-fno-omit-frame-pointer"]])
  func blockedThreadHasItsFunctions(options: [String]) throws {
    let program = try fixtures.clang(Self.source, ["-g0", "-pthread", "-fno-optimize-sibling-calls"] + options)
    let child = try Child(program)
    let thread = Int32(try child.number())
    let handle = try ProcessHandle(pid: child.id)
    let capture = ThreadCapture(of: handle)
    let probe = ThreadProbe(thread: thread, of: handle)
    try waitUntilBlocked(probe)
    let slices = probe.schedule()?.timeslices
    let moment = capture.capture(probe, stackEnd: 0)
    guard case .blocked(let call) = moment.activity else { throw Unexpected.activity(moment.activity) }
    #expect(SystemCall(call, of: thread, in: handle).text.hasPrefix("read(fd 0 → pipe:["))
    let backtrace = try moment.backtrace.get()
    #expect(backtrace.method == .procfs)
    #expect(!backtrace.isTruncated && !backtrace.isApproximate)
    let found = try functions(of: backtrace, handle, program: program)
    #expect(found.names == ["wait_for_backend"] + Self.chain)
    // Around the program's functions are the C library's: read(2), and what starts a thread.
    #expect(found.modules.first??.path.contains("/libc.so") == true)
    #expect(found.modules.last??.path.contains("/libc.so") == true)
    let own = try #require(found.modules.compactMap { $0 }.first { $0.isMainExecutable })
    #expect(own.path == program)
    #expect(own.identity.buildID == (try fixtures.buildID(program)))
    // Again, it is the same; and all the time the thread has not run.
    for _ in 0..<20 { #expect(try capture.capture(probe, stackEnd: 0).backtrace.get().frames == backtrace.frames) }
    #expect(slices != nil && probe.schedule()?.timeslices == slices)
    child.write("x")
    #expect(child.line() == "1 0", "the call has returned what it was to return")
  }

  @Test(.enabled(if: cunwind_perf_is_permitted(), "perf events are not permitted"))
  func runningThreadHasItsFunctions() throws {
    let program = try fixtures.clang(Self.source, ["-g0", "-pthread", "-fno-optimize-sibling-calls", "-O1"])
    let child = try Child(program, ["compute"])
    let thread = Int32(try child.number())
    let handle = try ProcessHandle(pid: child.id)
    let probe = ThreadProbe(thread: thread, of: handle)
    let before = probe.processorTime()
    let backtrace = try ThreadCapture(of: handle).captureWithPatience(probe).backtrace.get()
    #expect(backtrace.method == .perf)
    #expect(try functions(of: backtrace, handle, program: program).names == ["compute_checksum"] + Self.chain)
    try waitUntil("its processor time grows") { (probe.processorTime() ?? 0) > (before ?? .max) }
    child.write("x")
    #expect(child.line() == "1 0")
  }

  @Test func processThatHasEndedIsAnError() throws {
    let program = try fixtures.clang(Self.source, ["-pthread"])
    let child = try Child(program)
    let thread = Int32(try child.number())
    let handle = try ProcessHandle(pid: child.id)
    let capture = ThreadCapture(of: handle)
    let probe = ThreadProbe(thread: thread, of: handle)
    try waitUntilBlocked(probe)
    guard case .blocked(let call) = probe.activity() else { throw Unexpected.activity(probe.activity()) }
    #expect(handle.load(call.stackPointer, as: UInt64.self) != nil)
    child.kill()
    #expect(capture.capture(probe, stackEnd: 0).backtrace == .failure(.threadEnded))
    #expect(handle.load(call.stackPointer, as: UInt64.self) == nil)
    capture.flush()
    var map = ModuleMap(executablePath: program, of: handle)
    #expect(map.module(at: call.programCounter) == nil)
    #expect(throws: ProcessHandle.Failure.self) { try ProcessHandle(pid: child.id) }
  }

  /// The handle is of the program that ran when it was made.
  @Test func nothingIsReadOfTheNextProgram() throws {
    let child = try Child("/bin/sh", ["-c", "echo ready; read go; echo $$; exec cat"])
    #expect(child.line() == "ready")
    let handle = try ProcessHandle(pid: child.id)
    let probe = ThreadProbe(thread: child.id, of: handle)
    let capture = ThreadCapture(of: handle)
    #expect(try capture.captureWithPatience(probe).backtrace.get().frames.count > 2)
    child.write("go\n")
    #expect(try child.number() == UInt64(child.id))
    child.write("echo\n")
    #expect(child.line() == "echo")
    let later = ThreadProbe(thread: child.id, of: handle)
    try waitUntilBlocked(later)
    #expect(capture.capture(later, stackEnd: 0).backtrace == .failure(.threadEnded))
    let next = try ProcessHandle(pid: child.id)
    let frames = try ThreadCapture(of: next).capture(later, stackEnd: 0).backtrace.get().frames
    var map = ModuleMap(executablePath: "/bin/cat", of: next)
    #expect(frames.contains { map.module(at: $0.lookupAddress)?.isMainExecutable == true })
  }

  private static let mapping = """
    #include <stdio.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(void) {
      long page = sysconf(_SC_PAGESIZE);
      static char buffer[64];
      setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
      char *place = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      munmap(place, 3 * page);
      printf("%lx\\n", (unsigned long)(place + page));
      fflush(stdout);
      for (;;) {
        mmap(place + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        place[page] = 1;
        munmap(place + page, page);
      }
    }

    """

  @Test func memoryThatIsUnmappedMeanwhileIsNotRead() throws {
    let child = try Child(try fixtures.clang(Self.mapping, ["-O1"]))
    let address = try child.number(radix: 16)
    let handle = try ProcessHandle(pid: child.id)
    var counts: Set<Int> = []
    let page = Int(getpagesize())
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * page, alignment: 8)
    defer { buffer.deallocate() }
    try waitUntil("the page is there at one time, and not at another") {
      counts.insert(handle.read(address, into: buffer))
      return counts.isSuperset(of: [0, page])
    }
    // What lies behind it never is.
    #expect(counts == [0, page])
  }

  private enum Unexpected: Error { case activity(ThreadProbe.Activity) }
}

extension ProcessHandle {
  fileprivate func functionStart(_ address: UInt64) -> UInt64 { cunwind_function_start(cunwind, address) }
}
