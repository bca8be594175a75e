import Testing

@testable import stalld

/// The lines that wait for an output, which the agent's loop and the output's thread share.
@Suite struct LineQueueTests {
  private func lines(_ count: Int, bytes: Int = 100) -> [ReportLine] {
    (0..<count).map {
      ReportLine(
        bytes: Array(repeating: 32, count: bytes), event: "stall.ended", isError: false, service: "\($0)",
        cause: "lock",
        durationMilliseconds: 1, stallID: "", processID: 1)
    }
  }

  @Test func linesComeOutAsTheyWentIn() {
    var queue = LineQueue()
    let all = lines(1000)
    for start in stride(from: 0, to: 1000, by: 125) {
      for piece in LineQueue.Piece.pieces(of: all[start..<start + 125]) { queue.append(piece) }
    }
    #expect(queue.count == 1000 && queue.bytes == 100_000)
    var taken: [String] = []
    while !queue.isEmpty {
      let pieces = queue.takeFirst(lines: 300, bytes: 20_000)
      let count = pieces.reduce(0) { $0 + $1.lines.count }
      #expect(count > 0 && count <= 300 && pieces.reduce(0) { $0 + $1.bytes } <= 20_000)
      taken += pieces.flatMap(\.lines).map(\.service)
    }
    #expect(taken == all.map(\.service) && queue.bytes == 0)
  }

  @Test func aPieceIsSmallAndALongLineIsOneAlone() {
    let pieces = LineQueue.Piece.pieces(of: (lines(200) + lines(3, bytes: 60_000))[...])
    #expect(pieces.map(\.lines.count) == [64, 64, 64, 9, 1, 1])
    var queue = LineQueue()
    pieces.suffix(1).forEach { queue.append($0) }
    // One that is longer than what is written at once is written all the same.
    #expect(queue.takeFirst(lines: 1, bytes: 1).count == 1)
  }

  /// The other thread may wait for the lock meanwhile: the time under it must not grow with the lines.
  @Test func noLineIsCopiedInTheQueue() {
    let all = lines(64)
    let address = all.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    var queue = LineQueue()
    for piece in LineQueue.Piece.pieces(of: all[...]) { queue.append(piece) }
    let taken = queue.takeFirst(lines: 512, bytes: 1 << 20)
    #expect(taken.count == 1)
    #expect(taken[0].lines.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) } == address)
  }

  @Test func anOutputThatNobodyWaitsForDropsTheOldestLinesButNotThoseThatAreBeingWritten() {
    let queue = OutputQueue(name: "stdout")
    queue.isRequired = false
    let all = lines(200, bytes: 60_000)
    _ = queue.append(LineQueue.Piece.pieces(of: all[..<4]))
    #expect(queue.begin().map(\.service) == ["0", "1", "2", "3"])
    let (_, drops) = queue.append(LineQueue.Piece.pieces(of: all[4...]))
    #expect(drops)
    let counters = queue.counters
    #expect(counters.dropped > 0 && counters.queuedLines + Int(counters.dropped) == 200)
    #expect(counters.queuedBytes <= OutputQueue.optionalBytes)
    queue.finish(2)
    #expect(queue.begin().map(\.service) == ["2", "3"])
    queue.finish(2)
    #expect(queue.begin().first?.service == "\(4 + counters.dropped)")
    #expect(queue.counters.lines == 4)
    #expect(queue.abandon().last?.service == "199" && queue.begin().isEmpty && queue.count == 0)
  }
}
