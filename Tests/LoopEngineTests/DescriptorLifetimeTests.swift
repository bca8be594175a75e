import CLinux
import Glibc
import Testing

@testable import LoopEngine

/// Descriptors that are closed, duplicated and used again under a watch.
@Suite struct DescriptorLifetimeTests {
  @Test func aNumberThatIsUsedAgainBelongsToItsNewSource() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let (first, second) = (Pipe(), Pipe())
      let old = try loop.watch(first.reading) { _, _ in log.append("old") }
      // The number is another file now, and the old source does not know it.
      dup2(second.reading, first.reading)
      let new = try loop.watch(first.reading) { _, _ in
        log.append("new")
        second.read()
      }
      // As a fork, or an orphaned watch, makes it.
      for mode in loop.modes.compactMap({ $0 }) { loop.reopenPoller(mode) }
      second.write()
      loop.run(mode: .default, for: .milliseconds(5))
      old.interest = [.readable, .writable]
      old.invalidate()
      second.write()
      loop.run(mode: .default, for: .milliseconds(5))
      #expect(new.isValid && new.error == nil)
      first.close()
      second.close()
      return 0
    }
    #expect(log.all == ["new", "new"])
  }

  @Test func aNumberThatBringsTheSameFileBackCanBeWatchedAgain() throws {
    let (pipe, other) = (Pipe(), Pipe())
    defer { for pipe in [pipe, other] { pipe.close() } }
    let copy = duplicate(pipe.reading)
    defer { close(copy) }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let old = try loop.watch(pipe.reading) { _, _ in log.append("old") }
      // Closed, as far as the watch can see, when the source ends: the kernel keeps the watch, as the file lives on.
      dup2(other.reading, pipe.reading)
      old.invalidate()
      dup2(copy, pipe.reading)
      try loop.watch(pipe.reading) { source, _ in
        log.append("new")
        source.invalidate()
      }
      pipe.write()
      return loop.run(mode: .default, for: .seconds(10))
    }
    #expect(log.all == ["new"])
  }

  @Test func duplicatesAreWatchedEachForItself() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let copies = (0..<3).map { _ in duplicate(pipe.reading) }
    defer { for copy in copies { close(copy) } }
    let log = Log<Int32>()
    _ = try onFreshLoop { loop in
      for descriptor in copies + [pipe.reading] {
        try loop.watch(descriptor) { source, _ in
          log.append(source.descriptor)
          source.invalidate()
        }
      }
      pipe.write()
      return loop.run()
    }
    #expect(log.all.sorted() == (copies + [pipe.reading]).sorted())
  }

  @Test func readingAndWritingOnOneSocketAreTwoSourcesOfTwoDuplicates() throws {
    var ends: [Int32] = [0, 0]
    #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    let copy = duplicate(ends[0])
    defer { for end in ends + [copy] { close(end) } }
    let (here, there) = (ends[0], ends[1])
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      try loop.watch(here) { source, _ in
        log.append("read")
        source.invalidate()
      }
      try loop.watch(copy, for: .writable) { source, _ in
        log.append("write")
        source.invalidate()
        send(there, "x", 1, 0)
      }
      return loop.run()
    }
    #expect(log.all == ["write", "read"])
  }

  @Test func aSourceMayCloseItsDescriptorInItsCall() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      for _ in 0..<100 {
        let pipe = Pipe()
        try loop.watch(pipe.reading) { source, _ in
          log.append(1)
          source.invalidate()
          pipe.close()
        }
        pipe.write()
      }
      return loop.run()
    }
    #expect(log.count == 100)
    #expect(result == .finished)
  }

  @Test func oneSourceInTwoModesIsTwoWatches() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = Loop.DescriptorSource(pipe.reading) { _, _ in log.append(loop.currentMode?.name ?? "none") }
      try loop.add(source, to: .tests)
      try loop.add(source, to: .default)
      try loop.add(source, to: .default)
      loop.run(mode: .tests, for: .zero)
      loop.run(mode: .default, for: .zero)
      loop.remove(source, from: .default)
      #expect(loop.run(mode: .default, for: .zero) == .finished)
      loop.run(mode: .tests, for: .zero)
      #expect(source.isValid)
      return 0
    }
    #expect(log.all == ["tests", "default", "tests"])
  }

  @Test func whatIsAddedInACallIsServedInTheNextPass() throws {
    let (first, second) = (Pipe(), Pipe())
    defer { for pipe in [first, second] { pipe.close() } }
    for pipe in [first, second] { pipe.write() }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      try loop.watch(first.reading) { source, _ in
        source.invalidate()
        log.append("first")
        _ = try? loop.watch(second.reading) { source, _ in
          source.invalidate()
          log.append("second")
        }
      }
      return loop.run()
    }
    #expect(log.all == ["pass", "first", "pass", "second"])
  }
}
