import CLinux
import Foundation
import Synchronization
import Testing

@testable import StallMonitor

/// The page on which loops note for the agent that a stall is over.
struct RecoveryPageTests {
  private static let id = "0123456789abcdef0123456789abcdef"

  /// Memory as an agent gives it; closed at the end.
  private final class Memory {
    let descriptor = clinux_sealed_memory("test", RecoveryFormat.size)
    deinit { close(descriptor) }

    func fate(_ id: String = RecoveryPageTests.id) -> RecoveryFormat.Fate {
      var bytes = [UInt8](repeating: 0, count: RecoveryFormat.size)
      let count = pread(descriptor, &bytes, bytes.count, 0)
      return bytes.withUnsafeBytes { RecoveryFormat.fate(of: id, on: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }
  }

  private func page() throws -> RecoveryPage { try #require(RecoveryPage(sentinel: ForkSentinel())) }

  @Test func stallIsOverWhenTheLoopHasContinued() throws {
    let page = try page()
    let place = try #require(page.makeSlot())
    let memory = Memory()
    #expect(memory.fate() == .unknown, "nobody has written there")
    #expect(page.show(memory.descriptor))
    place.begin(Self.id, turn: 5, since: 1000) { nil }
    #expect(memory.fate() == .lasted)
    // The loop may be late with the end of the turn before, and then it says that this one has begun.
    place.pass(5, at: 900)
    #expect(memory.fate() == .lasted)
    place.update(since: 1200)
    place.pass(9, at: 3000)
    #expect(memory.fate() == .over(1800))
    // Another stall of the same loop.
    place.begin(String(Self.id.reversed()), turn: 17, since: 4000) { nil }
    #expect(memory.fate() == .over(nil))
    #expect(memory.fate(String(Self.id.reversed())) == .lasted)
  }

  @Test func nextAgentGetsWhatThePreviousOneHad() throws {
    let page = try page()
    let places = try (0..<3).map { _ in try #require(page.makeSlot()) }
    let ids = (0..<3).map { String(repeating: "0", count: 31) + String($0 + 1) }
    // Without any agent.
    for (index, place) in places.enumerated() { place.begin(ids[index], turn: 4, since: 10) { nil } }
    places[0].pass(8, at: 20)
    let first = Memory()
    #expect(page.show(first.descriptor))
    places[1].pass(8, at: 30)
    let second = Memory()
    #expect(page.show(second.descriptor))
    #expect(ids.map(second.fate) == [.over(10), .over(20), .lasted])
    places[2].pass(8, at: 40)
    #expect(second.fate(ids[2]) == .over(30))
    #expect(first.fate(ids[2]) == .lasted, "nothing reaches the former one")
  }

  @Test func turnThatIsOverAlreadyIsNotedSo() throws {
    let page = try page()
    let memory = Memory()
    #expect(page.show(memory.descriptor))
    try #require(page.makeSlot()).begin(Self.id, turn: 4, since: 10) { 25 }
    #expect(memory.fate() == .over(15))
  }

  @Test func moreLoopsThanPlacesMakeItSayLess() throws {
    let page = try page()
    let memory = Memory()
    #expect(page.show(memory.descriptor))
    var places = (0..<RecoveryFormat.slotCount).compactMap { _ in page.makeSlot() }
    #expect(places.count == 63)
    places.removeLast()
    places.append(try #require(page.makeSlot()))
    #expect(memory.fate() == .over(nil), "all stalls that last are on it")
    #expect(page.makeSlot() == nil)
    #expect(memory.fate() == .unknown)
    let next = Memory()
    #expect(page.show(next.descriptor))
    #expect(next.fate() == .unknown)
    places[7].begin(Self.id, turn: 4, since: 10) { nil }
    #expect(next.fate() == .lasted)
  }

  /// A store there must never fail.
  @Test func whatCouldGoAwayIsNotUsed() throws {
    let page = try page()
    let path = "/dev/shm/stalld-\(UUID().uuidString)"
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    unlink(path)
    ftruncate(file, off_t(RecoveryFormat.size))
    var pipe: [Int32] = [-1, -1]
    #expect(Glibc.pipe(&pipe) == 0)
    let small = clinux_sealed_memory("test", 100)
    let null = open("/dev/null", O_RDWR | O_CLOEXEC)
    for descriptor in [file, pipe[0], pipe[1], small, null, -1] { #expect(!page.show(descriptor)) }
    for descriptor in [file, pipe[0], pipe[1], small, null] { close(descriptor) }
    // What cannot be written to, or could be kept from it at any time.
    typealias Create = @convention(c) (UnsafePointer<CChar>, UInt32) -> Int32
    let create = unsafeBitCast(try #require(dlsym(nil, "memfd_create")), to: Create.self)
    let (seal, shrink, write, futureWrite): (Int32, Int32, Int32, Int32) = (1, 2, 8, 16)
    for seals in [shrink, shrink | seal | write, shrink | seal | futureWrite, shrink | seal] {
      // MFD_CLOEXEC | MFD_ALLOW_SEALING; F_ADD_SEALS.
      let sealed = create("test", 3)
      #expect(ftruncate(sealed, off_t(RecoveryFormat.size)) == 0 && fcntl(sealed, 1033, seals) == 0)
      #expect(page.show(sealed) == (seals == shrink | seal))
      close(sealed)
    }
    // Nobody who has it can make it smaller.
    let memory = Memory()
    #expect(ftruncate(memory.descriptor, 0) != 0)
    #expect(page.show(memory.descriptor))
  }

  /// Even what the kernel refuses to map leaves memory there.
  @Test func refusedMappingLeavesNoHole() throws {
    let pages = try #require(clinux_pages(RecoveryFormat.size))
    defer { clinux_pages_free(pages, RecoveryFormat.size) }
    let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { close(null) }
    for _ in 0..<3 {
      #expect(!clinux_pages_show_file(pages, RecoveryFormat.size, null))
      pages.storeBytes(of: 7, as: UInt64.self)
    }
  }

  /// Agents that come and go, and stalls all the time: the last memory that is shown has the truth.
  @Test func nothingIsLostBetweenTwoAgents() throws {
    let page = try page()
    let place = try #require(page.makeSlot())
    for round in 1...300 {
      let id = String(repeating: "0", count: 28) + String(1000 + round)
      place.begin(id, turn: UInt64(round) << 2, since: 1) { nil }
      let loop = Thread { place.pass(UInt64(round) << 2 | 1, at: 101) }
      loop.start()
      let memories = (0..<5).map { _ in Memory() }
      for memory in memories { #expect(page.show(memory.descriptor)) }
      while !loop.isFinished { sched_yield() }
      #expect(memories[4].fate(id) == .over(100))
    }
  }
}
