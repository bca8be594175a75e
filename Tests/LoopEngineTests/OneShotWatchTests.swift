import Glibc
import LoopEngine
import Testing

/// Watches that are called once.
@Suite struct OneShotWatchTests {
  @Test func aWatchThatDoesNotRepeatIsCalledOnceAlsoByARunWithinIt() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<Bool>()
    let freed = Log<Int>()
    let result = try onFreshLoop { loop in
      func watch(_ token: Token) throws -> Loop.DescriptorSource {
        try loop.watch(pipe.reading, repeats: false) { source, readiness in
          withExtendedLifetime(token) { log.append(source.isValid) }
          // Nothing has read the byte.
          #expect(readiness == .readable && loop.run(mode: .default, for: .zero) == .finished)
        }
      }
      let source = try watch(Token { freed.append(1) })
      #expect(source.isValid)
      let result = loop.run()
      #expect(!source.isValid && !loop.contains(source, in: .common))
      return result
    }
    #expect(result == .finished && log.all == [false] && freed.count == 1)
  }

  @Test func itsClosureMayWatchTheDescriptorAgain() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      @Sendable func watch() throws {
        try loop.watch(pipe.reading, repeats: false) { _, _ in
          log.append(log.count)
          if log.count < 3 { try? watch() }
        }
      }
      try watch()
      return loop.run()
    }
    #expect(result == .finished && log.all == [0, 1, 2])
  }
}
