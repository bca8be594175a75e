import CLinux
import Glibc
import StallReport
import Synchronization
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// The texts of the system calls that a thread waits in.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct SystemCallTests {
    struct Words: Sendable, CustomTestStringConvertible {
      var call: String
      var cause: Cause
      /// The text, with `N` for any number.
      var text: String

      init(_ call: String, _ cause: Cause, _ text: String) { (self.call, self.cause, self.text) = (call, cause, text) }
      var testDescription: String { call }
    }

    // What the C library calls where the architecture has no `poll` and no `epoll_wait`.
    private static let poll = number(of: "poll") == nil ? "ppoll" : "poll"
    private static let epoll = number(of: "epoll_wait") == nil ? "epoll_pwait" : "epoll_wait"

    static let words = [
      Words("nanosleep", .sleep, "clock_nanosleep(N ms)"),
      Words("clock_nanosleep, absolute", .sleep, "clock_nanosleep(until a set time)"),
      Words("poll", .sleep, "\(poll)(N descriptors, timeout N ms)"),
      Words("ppoll", .sleep, "ppoll(N descriptors, timeout N ms)"),
      Words("poll of a timerfd", .io, "\(poll)(fd N → anon_inode:[timerfd], no timeout)"),
      Words("select", .sleep, "pselectN(timeout N ms)"),
      Words("epoll_wait", .io, "\(epoll)(fd N → anon_inode:[eventpoll], timeout N ms)"),
      Words("epoll_pwait2", .io, "epoll_pwaitN(fd N → anon_inode:[eventpoll], timeout N ms)"),
      Words("read of a pipe", .io, "read(fd N → pipe:[N])"),
      Words("large write to a pipe", .io, "write(fd N → pipe:[N])"),
      Words("recv", .io, "recvfrom(fd N → socket:[N])"),
      Words("accept with SO_RCVTIMEO", .io, "accept(fd N → socket:[N])"),
      Words("read of an inotify descriptor", .io, "read(fd N → anon_inode:inotify)"),
      Words("open of a FIFO", .io, "openat(/tmp/*)"),
      Words("flock", .lock, "flock(fd N → /tmp/*)"),
      Words("fcntl F_OFD_SETLKW", .lock, "fcntl(fd N → /tmp/*, lock)"),
      Words("semop", .lock, "semtimedop"),
      Words("waitpid", .lock, "waitN(pid N)"),
      Words("waitid", .lock, "waitid(pid N)"),
      Words("sem_wait", .lock, "futex(wait)"),
    ]

    /// A thread that makes one call.
    private final class Caller: Sendable {
      let index: Int
      let thread = Atomic<Int32>(0)
      let isDone = Atomic<Bool>(false)
      /// Whether the kernel does not have the call.
      let isMissing = Atomic<Bool>(false)
      init(_ index: Int) { self.index = index }

      func start() -> pthread_t {
        var handle = pthread_t()
        pthread_create(
          &handle, nil,
          { argument in
            let caller = Unmanaged<Caller>.fromOpaque(argument!).takeUnretainedValue()
            caller.thread.store(clinux_gettid(), ordering: .releasing)
            caller.isMissing.store(victim_call_run(caller.index).error == ENOSYS, ordering: .relaxed)
            caller.isDone.store(true, ordering: .releasing)
            return nil
          }, Unmanaged.passUnretained(self).toOpaque())
        while thread.load(ordering: .acquiring) == 0 { sched_yield() }
        return handle
      }
    }

    /// The texts and causes that were seen while the call was made; nil if the kernel does not have it.
    private func seen(in call: String) throws -> [(text: String, cause: Cause)]? {
      let index = try #require((0..<victim_call_count).first { String(cString: victim_call_name($0)) == call })
      // There the search for the caller may take longer than a call.
      if TestMachine.isEmulated { victim_call_set_duration(UInt32(VICTIM_CALL_MS) * 10) }
      defer { victim_call_set_duration(UInt32(VICTIM_CALL_MS)) }
      let caller = Caller(index)
      let handle = caller.start()
      defer { pthread_join(handle, nil) }
      let probe = ThreadProbe(thread: caller.thread.load(ordering: .acquiring), of: .own)
      let capture = ThreadCapture(of: .own)
      var seen: [(String, Cause)] = []
      while !caller.isDone.load(ordering: .acquiring) {
        let moment = capture.capture(probe, stackEnd: 0)
        let chain = WaitChain(of: probe, in: moment, with: nil, reader: FrameReader(executablePath: ""))
        if let wait = chain.finding(for: [], FrameNamer()).wait {
          seen.append((wait, Verdict.cause(of: moment.activity, usage: nil)))
        }
        usleep(5000)
      }
      return caller.isMissing.load(ordering: .relaxed) ? nil : seen
    }

    @Test(arguments: words) func callIsReportedInWords(words: Words) throws {
      var texts: Set<String> = []
      // A machine that was too busy to look in time may get another go.
      for _ in 0..<10 {
        // Linux before 5.11 has no epoll_pwait2.
        guard let seen = try seen(in: words.call) else { return }
        for (text, cause) in seen {
          let pattern = text.replacing(/\d+/, with: "N").replacing(/\/tmp\/[^),]*/, with: "/tmp/*")
          texts.insert(pattern)
          if pattern == words.text {
            #expect(cause == words.cause)
            return
          }
        }
      }
      Issue.record("\(words.call): \(texts.sorted())")
    }

    /// Paths may hold anything, and be longer than a line.
    @Test func hostilePathKeepsTheLineWhole() throws {
      let hostile: [UInt8] =
        Array("/tmp/a\nb\u{1b}[2J\"\\é".utf8) + [0xff, 0xfe, 0xc3] + Array(repeating: 0x0a, count: 4000) + [0]
      let openat = try #require(Self.number(of: "openat"))
      hostile.withUnsafeBufferPointer { path in
        let address = UInt64(UInt(bitPattern: path.baseAddress!))
        let call = ThreadProbe.BlockedCall(
          number: openat, arguments: (0, address, 0, 0, 0, 0), stackPointer: 1, programCounter: 1)
        let text = SystemCall(call, in: .own).text
        #expect(text.hasPrefix("openat(/tmp/a?b?[2J\"\\é"))
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f })
        #expect(text.utf8.count < 300 && text.contains("…"))
      }
      // A string that ends where memory does, one that is nowhere, and a null pointer.
      for address in [UInt64(8), 0, UInt64.max - 4] {
        var call = ThreadProbe.BlockedCall(
          number: openat, arguments: (0, address, 0, 0, 0, 0), stackPointer: 1, programCounter: 1)
        #expect(SystemCall(call, in: .own).text == "openat")
        // Newer architectures have no `open`.
        guard let open = Self.number(of: "open") else { continue }
        call = ThreadProbe.BlockedCall(
          number: open, arguments: (address, 0, 0, 0, 0, 0), stackPointer: 1, programCounter: 1)
        #expect(SystemCall(call, in: .own).text == "open")
      }
    }

    /// However many descriptors there could be.
    @Test func selectOfNoSetIsASleep() throws {
      let number = try #require(Self.number(of: "pselect6"))
      for (set, cause) in [(0, .sleep), (4096, .io)] as [(UInt64, Cause)] {
        let call = ThreadProbe.BlockedCall(
          number: number, arguments: (1, 0, set, 0, 0, 0), stackPointer: 1, programCounter: 1)
        #expect(SystemCall(call, in: .own).cause == cause)
      }
    }

    /// The number of a call on this architecture, or nil if it has none.
    private static func number(of name: String) -> Int64? {
      (0..<1024).first { KernelCall($0)?.name == name }
    }

    private func makeCall(_ name: String, _ first: UInt64 = 0, _ second: UInt64 = 0, _ fifth: UInt64 = 0) -> SystemCall?
    {
      Self.number(of: name).map {
        SystemCall(
          ThreadProbe.BlockedCall(
            number: $0, arguments: (first, second, 0, 0, fifth, 0), stackPointer: 1, programCounter: 1), in: .own)
      }
    }

    /// No call that the kernel has is a number in a report, and none has an unknown cause but one that continues another call.
    @Test func eachCallHasANameAndACause() throws {
      let calls = (0..<1024).compactMap { number in KernelCall(number).map { (number, $0) } }
      #expect(calls.count > 300)
      for (number, row) in calls {
        let call = SystemCall(
          ThreadProbe.BlockedCall(number: number, arguments: (0, 0, 0, 0, 0, 0), stackPointer: 1, programCounter: 1),
          in: .own)
        #expect(call.text.hasPrefix(row.name), "\(number): \(call.text)")
        #expect((call.cause == .unknown) == (row.name == "restart_syscall"), "\(row.name)")
      }
      for number in [-1, 1023, Int64.max] { #expect(KernelCall(number) == nil) }
    }

    /// What a slow file system answers late.
    @Test(arguments: [
      "statfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "chmod", "fchmodat", "utime",
      "utimensat",
      "getxattr", "symlink", "symlinkat", "chdir", "execve", "inotify_add_watch", "rename", "renameat2", "mount",
    ])
    func pathOfASlowFileSystemIsReported(name: String) throws {
      // Newer architectures have the later of two such calls alone.
      guard let number = Self.number(of: name) else { return }
      let row = try #require(KernelCall(number))
      Array("/srv/slow".utf8CString).withUnsafeBufferPointer { path in
        let address = UInt64(UInt(bitPattern: path.baseAddress!))
        let call = SystemCall(
          ThreadProbe.BlockedCall(
            number: number, arguments: (address, address, address, address, address, 0), stackPointer: 1,
            programCounter: 1), in: .own)
        let paths = Array(repeating: "/srv/slow", count: row.paths.nonzeroBitCount).joined(separator: ", ")
        #expect(call.text == "\(name)(\(paths))" && row.paths != 0)
        #expect(call.shortText == name && call.cause == .io)
      }
    }

    @Test(arguments: [
      "fstatfs", "lseek", "preadv2", "fadvise64", "fsetxattr", "getdents64", "fchdir", "bind", "syncfs",
    ])
    func descriptorOfASlowFileSystemIsReported(name: String) throws {
      let call = try #require(makeCall(name, 999_999))
      #expect(call.text == "\(name)(fd 999999)" && call.cause == .io)
    }

    /// A mapping without a file waits for the process's other threads.
    @Test func anonymousMappingIsGivenNoFile() throws {
      let anonymous = try #require(makeCall("mmap", 0, 4096, UInt64(bitPattern: -1)))
      #expect(anonymous.text == "mmap" && anonymous.cause == .lock && anonymous.waitedFor == .kernel)
      let file = try #require(makeCall("mmap", 0, 4096, 999_999))
      #expect(file.text == "mmap(fd 999999)" && file.cause == .io)
    }

    /// A child, or a program that is to be started.
    @Test func waitsForAnotherProcess() throws {
      for name in ["wait4", "waitid"] {
        let call = try #require(makeCall(name))
        #expect(call.cause == .lock && call.waitedFor == .process, "\(name)")
      }
      let (vfork, thread) = try (#require(makeCall("clone", 0x4000)), #require(makeCall("clone", 0x10000)))
      #expect(vfork.waitedFor == .process && thread.waitedFor == .kernel)
      let (semaphores, mapping) = try (#require(makeCall("semop")), #require(makeCall("munmap")))
      #expect(semaphores.waitedFor == .threadOrProcess && mapping.waitedFor == .kernel)
    }

    @Test func addressesAreReportedInWords() throws {
      let connect = try #require(Self.number(of: "connect"))
      func text(_ bytes: [UInt8]) -> String {
        bytes.withUnsafeBufferPointer { bytes in
          let call = ThreadProbe.BlockedCall(
            number: connect,
            arguments: (999_999, UInt64(UInt(bitPattern: bytes.baseAddress!)), UInt64(bytes.count), 0, 0, 0),
            stackPointer: 1, programCounter: 1)
          return SystemCall(call, in: .own).text
        }
      }
      #expect(
        text([2, 0, 0x1f, 0x90, 10, 0, 0, 7] + Array(repeating: 0, count: 8)) == "connect(fd 999999, 10.0.0.7:8080)")
      let loopback: [UInt8] = [10, 0, 0, 80, 0, 0, 0, 0] + Array(repeating: 0, count: 15) + [1, 0, 0, 0, 0]
      #expect(text(loopback) == "connect(fd 999999, [0:0:0:0:0:0:0:1]:80)")
      #expect(text([1, 0] + Array("/run/x\n".utf8) + [0, 9, 9]) == "connect(fd 999999, /run/x?)")
      #expect(text([1, 0, 0] + Array("name".utf8)) == "connect(fd 999999, @name)")
      #expect(text([1]) == "connect(fd 999999)")
    }

    /// A connect that waits, and an fsync, on the machine.
    @Test func waitingConnectNamesItsAddress() throws {
      let path = "/tmp/stalld-\(getpid()).socket"
      defer { unlink(path) }
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
      let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      defer { close(listener) }
      let size = socklen_t(MemoryLayout<sockaddr_un>.size)
      let bound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) }
      }
      #expect(bound == 0 && listen(listener, 0) == 0)
      // The first is taken into the queue; the next waits for its place.
      let connector = Connector(address)
      let handle = connector.start()
      defer {
        for _ in 0..<2 { close(accept(listener, nil, nil)) }
        pthread_join(handle, nil)
      }
      var text = ""
      for _ in 0..<2000 where !text.hasPrefix("connect(") {
        if case .blocked(let call) = ThreadProbe(thread: connector.thread.load(ordering: .acquiring), of: .own)
          .activity()
        {
          text = SystemCall(call, in: .own).text
        }
        usleep(5000)
      }
      #expect(text.contains("→ socket:[") && text.hasSuffix(", \(path))"), "\(text)")
    }

    private final class Connector: Sendable {
      let thread = Atomic<Int32>(0)
      private let address: sockaddr_un
      init(_ address: sockaddr_un) { self.address = address }

      func start() -> pthread_t {
        var handle = pthread_t()
        pthread_create(
          &handle, nil,
          { argument in
            let connector = Unmanaged<Connector>.fromOpaque(argument!).takeUnretainedValue()
            connector.thread.store(clinux_gettid(), ordering: .releasing)
            var address = connector.address
            for _ in 0..<2 {
              let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
              _ = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                  connect(client, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
              }
              close(client)
            }
            return nil
          }, Unmanaged.passUnretained(self).toOpaque())
        while thread.load(ordering: .acquiring) == 0 { sched_yield() }
        return handle
      }
    }
  }
}
