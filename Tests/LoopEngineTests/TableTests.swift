import Glibc
import Testing

@testable import LoopEngine

/// What the process keeps for all loops does not grow with what they do.
@Suite struct TableTests {
  @Test func originsAreForgottenWithTheSourcesThatHaveThem() async {
    await #expect(processExitsWith: .success) {
      let before = CallSites.count
      for line in 0..<10_000 as Range<UInt32> { _ = Loop.DescriptorSource(0, line: line) { _, _ in } }
      let same = (0..<3).map { _ in Loop.DescriptorSource(0, file: "file", line: 7) { _, _ in } }
      guard CallSites.count == before + 1, Set(same.map(\.callSite)).count == 1, same[0].callSite.pointee.line == 7
      else {
        exit(1)
      }
      exit(0)
    }
  }

  @Test func setsOfModesAreForgottenWithTheBlocksThatHaveThem() async {
    await #expect(processExitsWith: .success) {
      let modes = (0..<20).map { Loop.Mode("mode \($0)") }
      let log = Log<Int>()
      let loop = Loop.current
      for number in 0..<5000 {
        let bits = number * 7919
        let set: [Loop.Mode] = (0..<20).filter { bits >> $0 & 1 == 1 }.map { modes[$0] }
        loop.perform(in: set + [.default, .tests]) { log.append(number) }
      }
      let kept = ModeSets.count
      loop.run(mode: .tests, for: .zero)
      guard log.all == Array(0..<5000), kept > 1000, ModeSets.count == 0 else { exit(1) }
      // Those of blocks that never run, too; and a number that comes again is another set's.
      TestThread { Loop.current.perform(in: [modes[0], modes[1]]) {} }.join()
      guard ModeSets.count == 0 else { exit(2) }
      loop.perform(in: [modes[2], modes[3]]) { log.append(-1) }
      guard loop.run(mode: modes[0], for: .zero) == .finished, loop.run(mode: modes[3], for: .zero) == .timedOut else {
        exit(3)
      }
      exit(log.all.last == -1 ? 0 : 4)
    }
  }

  @Test func namesOfModesAreBounded() async {
    await #expect(processExitsWith: .success) {
      for number in 0..<65_000 { _ = Loop.Mode("mode \(number % 65_000)") }
      for number in 0..<65_000 where Loop.Mode("mode \(number)").name != "mode \(number)" { exit(1) }
      exit(0)
    }
    await #expect(processExitsWith: .failure) {
      for number in 0..<70_000 { _ = Loop.Mode("mode \(number)") }
    }
  }

  @Test func whatOtherThreadsAskedForIsForgottenOnceItIsMade() throws {
    let freed = Log<Int>()
    let pipe = Pipe()
    defer { pipe.close() }
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      for number in 0..<200 {
        func ask(_ token: Token) {
          let source = Loop.Source { withExtendedLifetime(token) {} }
          let timer = Loop.Timer(after: .seconds(1000)) { _ in withExtendedLifetime(token) {} }
          let observer = Loop.Observer(.exit) { _, _ in withExtendedLifetime(token) {} }
          TestThread {
            for mode in [Loop.Mode.common, .tests, .common] {
              loop.add(source, to: mode)
              loop.add(timer, to: mode)
              loop.add(observer, to: mode)
              if number % 2 == 0 { loop.remove(source, from: mode) }
            }
            source.invalidate()
            timer.invalidate()
            observer.invalidate()
          }.join()
        }
        ask(Token { freed.append(1) })
        loop.run(mode: .default, for: .zero)
      }
      // All are freed while the loop lives.
      #expect(freed.count == 200)
    }
  }

  @Test func exceptionsFromTheCommonModesAreNotCollected() throws {
    try onFreshLoop { loop in
      let source = Loop.Source {}
      loop.addCommonMode(.tests)
      for _ in 0..<100 {
        loop.add(source)
        for _ in 0..<3 { for mode in [Loop.Mode.default, .tests] { loop.remove(source, from: mode) } }
        loop.add(source, to: .other)
        loop.remove(source, from: .other)
      }
      #expect(source.keys.added == [Loop.Mode.common.id])
      var keys = source.keys
      #expect(keys.takeExceptions().count == 2)
      loop.remove(source)
      #expect(source.keys.isEmpty && !source.keys.hasExceptions)
    }
  }
}
