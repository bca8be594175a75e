import CSymbols
import Glibc
import StallDetection
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

/// Frames are addresses first; names have a time, and what comes too late is marked.
@Suite struct FrameNamerTests {
  private static let foreign = UInt64(UInt(bitPattern: dlsym(nil, "malloc_usable_size")))

  /// Two frames: the monitor's own code, and libc's.
  private func stack() -> [StackFrame] {
    let own = unsafeBitCast(csymbols_load as @convention(c) () -> Int32, to: UInt64.self)
    return FrameReader(executablePath: ProcessFacts.executablePath()).frames(
      of: Backtrace(frames: [
        .init(address: own + 4, isReturnAddress: false), .init(address: Self.foreign + 4, isReturnAddress: true),
      ]))
  }

  /// A call through a null pointer: the caller is responsible, and not a place that is the same for
  /// all such calls.
  @Test func nullPointerIsNoCodeOfTheService() {
    let frames = FrameReader(executablePath: "").frames(
      of: Backtrace(frames: [.init(address: 0, isReturnAddress: false)]))
    #expect(FrameNamer().names(of: frames) == [StackFrame(offset: 0, owner: .system)])
  }

  @Test func framesOutOfTimeKeepTheirPlaceAndGetTheirNamesLater() throws {
    let stack = stack()
    let whole = FrameNamer().names(of: stack)
    #expect(whole.first { !$0.isInlined }?.symbol == "csymbols_load")

    let namer = FrameNamer()
    namer.deadline = 0
    let late = namer.names(of: stack)
    #expect(late.count == 2)
    for frame in late {
      #expect(frame.symbol == nil)
      #expect(frame.module != nil && frame.buildID != nil && frame.offset != nil)
      #expect(frame.isPending)
    }
    // There is no responsible function and no fingerprint while the owner of the code is unknown.
    #expect(Culprit.frame(of: [late[0]]) == nil)
    #expect(Culprit.fingerprint(of: [late[0]]) == nil)

    namer.deadline = .max
    #expect(namer.names(of: stack) == whole)
    #expect(namer.names(of: whole) == whole)
    namer.release()
    #expect(namer.names(of: stack) == whole)
  }

  /// Different places of one function, by its name.
  @Test func samplesOfOneFunctionAreCountedTogetherOnceTheyHaveNames() throws {
    func sample(_ offset: UInt64) -> Episode.Sample {
      Episode.Sample(activity: .running, stack: [StackFrame(module: "/app", offset: offset)])
    }
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    for (offset, time) in [(16, 100), (32, 300), (17, 600)] as [(UInt64, Instant)] {
      episode.add(sample(offset), at: time)
    }
    #expect(episode.heaviest?.stack.first?.offset == 32)
    episode.name({ stack in
      stack.map { StackFrame(symbol: $0.offset == 32 ? "b" : "a", module: $0.module, offset: $0.offset) }
    })
    // a: 200 + 150; b: 250.
    #expect(episode.heaviest?.stack.first?.symbol == "a")
    #expect(episode.tree.nodes.map(\.frame.symbol) == ["a", "b"])
    #expect(episode.summaries.map(episode.culprit(of:)) == ["a", "b", "a"])
  }

  /// What there is no room for keeps its time and its cause.
  @Test func stallWithoutRoomHasNoStackAndSaysWhy() {
    var episode = Episode(id: "x", turn: TurnWord(phase: .afterWaiting, stamp: 0), start: 0)
    let stack = (0..<200).map { StackFrame(module: "/app", offset: $0) }
    episode.add(Episode.Sample(thread: 7, activity: .running, stack: stack), at: 300)
    let size = episode.size
    episode.dropStacks()
    #expect(episode.size < size / 10)
    #expect(episode.heaviest?.stack.isEmpty == true && episode.heaviest?.failure == .noRoom)
    #expect(episode.heaviest?.thread == 7 && episode.duration(at: 500) == 500)
  }
}
