import CSymbols
import Glibc
import StallReport
import Testing

@testable import StallMonitor

/// Names have a time, and what comes too late comes with the next report.
@Suite struct FrameResolverTests {
  private static let foreign = UInt64(UInt(bitPattern: dlsym(nil, "malloc_usable_size")))

  /// Two frames: the monitor's own code, and libc's.
  private func backtrace() throws -> Backtrace {
    let own = unsafeBitCast(csymbols_load as @convention(c) () -> Int32, to: UInt64.self)
    return Backtrace(frames: [
      .init(address: own + 4, isReturnAddress: false), .init(address: Self.foreign + 4, isReturnAddress: true),
    ])
  }

  private static func resolver(_ budget: FrameResolver.TimeBudget) -> FrameResolver {
    FrameResolver(executablePath: ProcessFacts.executablePath(), budget: budget)
  }

  private static let ample = FrameResolver.TimeBudget(first: 60_000_000_000, later: 60_000_000_000)

  /// A call through a null pointer: the caller is responsible, and not a place that is the same for
  /// all such calls.
  @Test func nullPointerIsNoCodeOfTheService() {
    let frames = Self.resolver(Self.ample).resolve(Backtrace(frames: [.init(address: 0, isReturnAddress: false)]))
    #expect(frames == [StackFrame(offset: 0, owner: .system)])
  }

  @Test func framesOutOfTimeKeepTheirPlaceAndGetTheirNamesLater() throws {
    let all = Self.resolver(Self.ample)
    all.beginReport(isFirst: true)
    let whole = all.resolve(try backtrace())
    #expect(whole.first { !$0.isInlined }?.symbol == "csymbols_load")

    let resolver = Self.resolver(.init(first: 0, later: 60_000_000_000))
    resolver.beginReport(isFirst: true)
    let late = resolver.resolve(try backtrace())
    #expect(late.count == 2)
    for frame in late {
      #expect(frame.symbol == nil)
      #expect(frame.module != nil && frame.buildID != nil && frame.offset != nil)
      #expect(frame.pending != nil)
    }
    // There is no responsible function and no fingerprint while the owner of the code is unknown.
    #expect(Culprit.frame(of: [late[0]]) == nil)
    #expect(Culprit.fingerprint(of: [late[0]]) == nil)

    resolver.beginReport(isFirst: false)
    #expect(resolver.complete(late) == whole)
    #expect(resolver.complete(whole) == whole)
  }

  @Test func samplesThatGetTheirNamesLaterAreCountedTogether() throws {
    func sample(_ symbol: String?, pending: Bool) -> Episode.Sample {
      var frame = StackFrame(symbol: symbol, module: "/app", offset: 16)
      if pending { frame.pending = .init(address: 16, isReturnAddress: false) }
      return Episode.Sample(activity: .running, cause: .running, stack: [frame])
    }
    var episode = Episode(id: "x", turn: Pulse.Word(phase: .afterWaiting, stamp: 0), start: 0)
    episode.add(sample(nil, pending: true), at: 300)
    episode.add(sample("b", pending: false), at: 800)
    episode.add(sample("a", pending: false), at: 1050)
    episode.completeNames { stack in stack.map { StackFrame(symbol: "a", module: $0.module, offset: $0.offset) } }
    // a: 300 + 250; b: 500.
    #expect(episode.heaviest?.stack.first?.symbol == "a")
  }

  @Test func budgetIsSharedByAllStacksOfAReport() throws {
    let resolver = Self.resolver(.init(first: 1, later: 60_000_000_000))
    resolver.beginReport(isFirst: true)
    usleep(1000)
    #expect(resolver.resolve(try backtrace()).allSatisfy { $0.pending != nil })
    #expect(resolver.resolve(try backtrace()).allSatisfy { $0.pending != nil })
  }
}
