import CLinux
import Glibc
import StallReport
import TestSupport
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// The lock holder that a thread waits for: named where it is certain, and omitted where it is
  /// not.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct LockHolderTests {
    /// What is found of a thread that waits in one of the victim's ways.
    private struct Found {
      var chain: WaitChain.Finding
      var keeper: Int32
    }

    // One for all: it keeps what it has read of the files.
    private let namer = FrameNamer()
    private let reader = FrameReader(executablePath: ProcessFacts.executablePath())

    /// How long a lock is held, in milliseconds.
    private static let hold: UInt32 = TestMachine.isEmulated ? 1500 : 150

    private func find(_ name: String) throws -> Found {
      var handle = pthread_t()
      let waiter = UnsafeMutablePointer<(name: String, id: Int32)>.allocate(capacity: 1)
      waiter.initialize(to: (name, 0))
      pthread_create(
        &handle, nil,
        { argument in
          let waiter = argument!.assumingMemoryBound(to: (name: String, id: Int32).self)
          waiter.pointee.id = clinux_gettid()
          _ = victim_wait_for(waiter.pointee.name, Self.hold)
          return nil
        }, waiter)
      defer {
        pthread_join(handle, nil)
        waiter.deinitialize(count: 1)
        waiter.deallocate()
      }
      let capture = ThreadCapture(of: .own)
      // The keeper has what is waited for, and the waiter has had the time to begin.
      usleep(40_000)
      let probe = ThreadProbe(thread: waiter.pointee.id, of: .own)
      let moment = capture.captureWithPatience(probe)
      let chain = WaitChain(of: probe, in: moment, with: capture, reader: reader)
      let stack = namer.names(of: reader.frames(of: try moment.backtrace.get()))
      return Found(chain: chain.finding(for: stack, namer), keeper: victim_keeper_id())
    }

    static let names = (0..<victim_lock_count).map { String(cString: victim_lock_name($0)) }

    /// What is held in each of the victim's ways; nil for one that is missing here.
    private static func kind(of name: String) -> LockHolder.Kind? {
      switch name {
      case "stream": .stream
      case "join": .thread
      case _ where name.hasPrefix("read-write lock, "): .readWrite
      case _ where name.hasSuffix("inheriting mutex"): .inheriting
      case _ where name.contains("mutex"): .mutex
      default: nil
      }
    }

    @Test func eachKindIsHeld() {
      let held = Set(Self.names.compactMap(Self.kind) + Self.swiftLocks.values)
      #expect(held == Set(LockHolder.Kind.allCases))
    }

    @Test(arguments: names.filter { !$0.hasPrefix("nobody") })
    func keeperIsFound(name: String) throws {
      // A machine that was too busy to let the waiter begin, or the keeper keep on, may get another go. So may one on which the keeper had
      // ended before its name was read.
      var attempt = try? find(name)
      for _ in 0..<5 where attempt?.chain.threads.first?.name == nil { attempt = try? find(name) }
      let found = try #require(attempt)
      let holder = try #require(found.chain.holder)
      #expect(holder.thread == found.keeper)
      #expect(holder.kind == Self.kind(of: name))
      #expect(holder.hasTimeout == name.contains("timeout"))
      #expect(found.chain.wait?.contains(holder.text) == true)
      let keeper = try #require(found.chain.threads.first)
      #expect(found.chain.threads.count == 1)
      #expect(keeper.id == found.keeper)
      #expect(keeper.name == "keeper")
      #expect(keeper.state == "clock_nanosleep(\(Self.hold) ms)")
      #expect(keeper.stack.contains { $0.symbol == "keep_the_lock" })
      #expect(found.chain.deadlock.isEmpty)
    }

    @Test(arguments: names.filter { $0.hasPrefix("nobody") })
    func unknownHolderIsNotNamed(name: String) throws {
      var attempt = try? find(name)
      for _ in 0..<5 where attempt?.chain.wait?.hasPrefix("futex(") != true { attempt = try? find(name) }
      let found = try #require(attempt)
      #expect(found.chain.holder == nil)
      #expect(found.chain.threads.isEmpty)
      #expect(found.chain.wait?.hasPrefix("futex(") == true)
      #expect(found.chain.waitedFor == (name.hasSuffix("in shared memory") ? .threadOrProcess : .thread))
    }

    /// The mutex has the number of its owner, which is no thread of this process.
    @Test func ownerInAnotherProcessIsNotNamed() throws {
      let size = MemoryLayout<pthread_mutex_t>.size
      let memory = try #require(mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
      defer { munmap(memory, size) }
      // Word, count, owner, users, kind: no thread has so large a number.
      let words = memory.bindMemory(to: UInt32.self, capacity: 5)
      for (index, word) in [2, 0, 0x3fff_ff00, 1, 0].enumerated() { words[index] = UInt32(word) }
      let futex = try #require((0..<1024).first { KernelCall($0)?.name == "futex" })
      func waitedFor(
        private flag: UInt64, timeout: UInt64 = 0, at address: UnsafeMutableRawPointer? = nil
      ) -> (WaitedFor, LockHolder.Candidate?) {
        let call = ThreadProbe.BlockedCall(
          number: futex, arguments: (UInt64(UInt(bitPattern: address ?? memory)), flag, 2, timeout, 0, 0),
          stackPointer: 1, programCounter: 1)
        return (
          LockHolder.unnamed(for: call, of: clinux_gettid(), in: .own),
          LockHolder.candidate(for: call, of: clinux_gettid(), in: .own)
        )
      }
      #expect(waitedFor(private: 0) == (.process, nil))
      // A thread of this process has that number, or one in another PID namespace.
      words[2] = UInt32(clinux_gettid())
      #expect(waitedFor(private: 0) == (.threadOrProcess, nil))
      // Its time limit ends the wait: it waits for no thread in particular.
      #expect(waitedFor(private: 0, timeout: 8) == (.timeLimit, nil))
      // No other process wakes the waiter of a private futex, and none has this thread's memory.
      #expect(waitedFor(private: 128).1?.holder.thread == clinux_gettid())
      var own = (UInt64(2), UInt64(0))
      #expect(withUnsafeMutableBytes(of: &own) { waitedFor(private: 0, at: $0.baseAddress) } == (.thread, nil))
    }

    /// Memory that no other process can have, and memory that another one may have.
    @Test func privateMemoryIsKnown() {
      let heap = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
      defer { heap.deallocate() }
      heap.initialize(to: 1)
      #expect(ProcessHandle.own.isPrivate(UInt64(UInt(bitPattern: heap))))
      for address in [0, 8, UInt64.max - 7] { #expect(!ProcessHandle.own.isPrivate(address)) }
    }

    /// A thread that has run since it was sampled has no holder, whatever the lock contains now.
    @Test func threadThatHasRunSinceHasNoHolder() throws {
      let victim = VictimThread(depth: 1, leaf: .mutex)
      defer { victim.release() }
      let capture = ThreadCapture(of: .own)
      let probe = ThreadProbe(thread: victim.id, of: .own)
      var moment = capture.capture(probe, stackEnd: 0)
      func find() -> WaitChain.Finding {
        WaitChain(of: probe, in: moment, with: nil, reader: reader).finding(for: [], namer)
      }
      var chain = find()
      #expect(chain.holder?.thread == clinux_gettid())
      #expect(chain.wait == "futex(wait): pthread mutex")
      moment.runCount = try #require(moment.runCount) - 1
      chain = find()
      #expect(chain.holder == nil)
      #expect(chain.wait == "futex(wait)")
    }

    private static let swiftLocks: [String: LockHolder.Kind] = [
      "Mutex": .inheriting, "queue": .queue, "queue by its target": .queue, "queue behind a barrier": .queue,
      "loop": .loop, "thread of its own": .thread,
    ]

    @Test(
      .repeatedAfterStandstills(because: "names of libraries, which the kind of a lock needs, have a time limit"),
      arguments: swiftLocks.keys.sorted())
    func keeperOfASwiftLockIsReported(kind: String) throws {
      let victim = try Victim.run(
        "lock", milliseconds: TestMachine.isEmulated ? 4000 : 450,
        environment: ["VICTIM_LOCK": kind, "STALLMONITOR_THRESHOLD": "50ms"])
      // On an emulated processor names come too late for the first report, and the keeper may run at the last.
      let report = try #require(
        TestMachine.isEmulated ? victim.reports.last { $0["threads"] != nil } : victim.reports.first)
      let keeper = try #require(victim.facts["keeper"].flatMap { Int($0) })
      #expect(report.cause == "lock")
      #expect(report["stall", "evidence", "lock_holder"] as? Int == keeper)
      #expect(report["stall", "evidence", "lock_kind"] as? String == Self.swiftLocks[kind]?.rawValue)
      let threads = report["threads"] as? [[String: Any]] ?? []
      #expect(threads.map { $0["id"] as? Int } == [keeper])
      let stack = threads.first?["stack"] as? [[String: Any]] ?? []
      #expect(stack.contains { ($0["symbol"] as? String)?.contains("keepTheLock()") == true })
      if kind == "loop" {
        #expect((report["message"] as? String)?.contains("for the run loop of thread \(keeper)") == true)
        #expect(report["stall", "evidence", "deadlock"] == nil)
      }
      if kind == "queue" {
        #expect(
          (report["message"] as? String)?.contains(
            "for dispatch queue \"com.example.serial\", which thread \(keeper) runs") == true)
      }
    }

    @Test func barrierBehindReadersNamesNoHolder() throws {
      let victim = try Victim.run(
        "lock", milliseconds: 300,
        environment: ["VICTIM_LOCK": "nobody: barrier behind readers", "STALLMONITOR_THRESHOLD": "50ms"])
      let report = try #require(victim.reports.first)
      #expect(report.cause == "lock")
      #expect(report["stall", "evidence", "lock_holder"] == nil)
      #expect(report["threads"] == nil)
    }
  }
}
