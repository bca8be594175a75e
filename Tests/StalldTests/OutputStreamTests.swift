import DescriptorIO
import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// Standard output: its reader may block, exit, or be the journal.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct OutputStreamTests {
  private func readAll(_ descriptor: Int32, while goesOn: () throws -> Bool) throws -> Data {
    var received = Data()
    var buffer = [UInt8](repeating: 0, count: 65536)
    var isOver = false
    while true {
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      if poll(&entry, 1, isOver ? 0 : 20) == 1 {
        let count = read(descriptor, &buffer, buffer.count)
        if count <= 0 { break }
        received += buffer[..<count]
      } else if isOver {
        break
      } else {
        // The last of it may have come since.
        isOver = try !goesOn()
      }
    }
    return received
  }

  @Test func blockedReaderDelaysNoOtherOutput() throws {
    let scratch = try ScratchDirectory()
    let ends = DescriptorPair.pipe()
    defer { for end in ends { close(end) } }
    let path = scratch.url.appending(path: "stalls.jsonl").path
    let bench = try OutputBench([.file(.init(path: path)), .standardOutput], standardOutput: ends[1])
    let count = 1000
    // Three pages each, of the sixteen of a pipe: the last one is taken in part.
    for start in stride(from: 0, to: count, by: 50) { bench.submit(start..<start + 50, size: 9000) }
    try bench.waitUntilDone(count)
    #expect(try OutputBench.numbers(in: path) == Array(0..<count))
    let stream = { bench.writer.counters().outputs[1] }
    try waitUntil { stream().dropped > 0 }
    #expect(stream().queuedBytes <= 4 << 20, "memory is bounded")
    #expect(fcntl(ends[1], F_GETFL) & O_NONBLOCK == 0, "the descriptor's flags are others' too")
    let numbers = try OutputBench.numbers(readAll(ends[0]) { stream().queuedLines > 0 })
    #expect(numbers == numbers.sorted() && numbers.last == count - 1)
    #expect(numbers.count + Int(stream().dropped) == count)
    bench.stop()
  }

  @Test(arguments: [true, false])
  func onlyOutputDropsNothing(canBeOpenedAnew: Bool) throws {
    // A socket cannot be opened again.
    let ends = canBeOpenedAnew ? DescriptorPair.pipe() : DescriptorPair.sockets()
    defer { for end in ends { close(end) } }
    let bench = try OutputBench([.standardOutput], standardOutput: ends[1])
    bench.submit(0..<1000, size: 7999)
    try waitUntil { bench.done > 0 }
    #expect(bench.done < 1000)
    let numbers = try OutputBench.numbers(readAll(ends[0]) { bench.done < 1000 })
    #expect(numbers == Array(0..<1000))
    #expect(bench.writer.counters().outputs[0].dropped == 0)
    bench.stop()
  }

  /// In a process of its own: a program that another test starts may have the reader's end for a moment.
  @Test func readerThatHasExitedIsLoggedAndEndsNothing() async {
    await #expect(processExitsWith: .success) {
      let ends = DescriptorPair.pipe()
      let bench = try OutputBench([.standardOutput], standardOutput: ends[1])
      close(ends[0])
      bench.submit(0..<3)
      try waitUntil { !bench.errors.isEmpty }
      #expect(bench.errors[0].contains("stdout: Broken pipe"))
      #expect(bench.done == 0)
      bench.writer.stop(within: .milliseconds(100))
    }
  }

  @Test func onlyTheJournalGetsPriorities() throws {
    let ends = DescriptorPair.sockets()
    defer { for end in ends { close(end) } }
    var status = stat()
    fstat(ends[1], &status)
    for (stream, prefixes) in [("\(status.st_dev):\(status.st_ino)", ["<4>", "<3>"]), ("1:1", ["", ""])] {
      let journal = DescriptorDestination(ends[1], name: "stdout", journalStream: stream)
      try journal.open()
      let lines = [OutputBench.line(1), OutputBench.line(2, isError: true)]
      for line in lines { guard case .sent = journal.send(line) else { Issue.record("not sent"); return } }
      let expected = zip(prefixes, lines).flatMap { Array($0.utf8) + $1.bytes }
      #expect(try readAll(ends[0]) { false } == Data(expected))
    }
  }

  /// Somebody like journald: each connection says first who it is.
  @Test func journalIsConnectedToAgain() throws {
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "stdout").path
    let ends = DescriptorPair.sockets()
    defer { close(ends[1]) }
    var status = stat()
    fstat(ends[1], &status)
    let journal = DescriptorDestination(
      ends[1], name: "stdout", journalStream: "\(status.st_dev):\(status.st_ino)", journalSocket: path)
    try journal.open()
    guard case .sent = journal.send(OutputBench.line(1)) else { Issue.record("not sent"); return }
    close(ends[0])
    for _ in 0..<3 { guard case .failed = journal.send(OutputBench.line(2)) else { Issue.record("sent"); return } }
    let address = try #require(SocketAddress(path: path))
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    try #require(address.bind(listener) == 0 && listen(listener, 1) == 0)
    guard case .sent = journal.send(OutputBench.line(2)) else { Issue.record("not sent again"); return }
    let client = accept(listener, nil, nil)
    defer { close(client) }
    let received = String(decoding: try readAll(client) { false }, as: UTF8.self)
    #expect(received == "stalld\n\n6\n1\n0\n0\n0\n<4>" + String(decoding: OutputBench.line(2).bytes, as: UTF8.self))
  }

  // MARK: Several

  @Test func outputsChangeWithoutALoss() throws {
    let scratch = try ScratchDirectory()
    let (one, two) = (scratch.url.appending(path: "one.jsonl").path, scratch.url.appending(path: "two.jsonl").path)
    let bench = try OutputBench(file: .init(path: one))
    let changes = SharedCount()
    bench.submit(0..<10)
    try bench.waitUntilDone(10)
    bench.writer.replace([.file(.init(path: one, keep: 3)), .file(.init(path: two))]) { _ in _ = changes.add(1) }
    // Lines that are submitted meanwhile may go to the old outputs or to the new ones.
    try waitUntil { changes.value == 1 }
    bench.submit(10..<20)
    bench.writer.replace([.file(.init(path: two))]) { _ in _ = changes.add(1) }
    try waitUntil { changes.value == 2 }
    bench.submit(20..<30)
    let refusals = SharedCount()
    bench.writer.replace([.file(.init(path: two)), .file(.init(path: "/nowhere/at/all"))]) { error in
      if error?.description == "file /nowhere/at/all: No such file or directory" { _ = refusals.add(1) }
    }
    bench.writer.replace([.file(.init(path: two)), .file(.init(path: two))]) { error in
      if error?.description == "outputs[1]: writes to the same place as outputs[0]" { _ = refusals.add(1) }
    }
    bench.submit(30..<40)
    try bench.waitUntilDone(40)
    try waitUntil { refusals.value == 2 }
    #expect(bench.writer.counters().outputs.map(\.name) == ["file \(two)"])
    bench.stop()
    #expect(try OutputBench.numbers(in: one) == Array(0..<20))
    #expect(try OutputBench.numbers(in: two) == Array(10..<40))
  }

  /// Lines that a full disk did not take go to what comes in its place.
  @Test(.enabled(if: geteuid() == 0, "mounting a small file system needs root"))
  func linesOfAFullDiskMoveToTheNextOutput() throws {
    let disk = try SmallDisk(size: "64k")
    let scratch = try ScratchDirectory()
    let (one, two) = (disk.path + "/one.jsonl", scratch.url.appending(path: "two.jsonl").path)
    let bench = try OutputBench(file: .init(path: one))
    bench.submit(0..<30, size: 5000)
    try waitUntil { bench.writer.counters().outputs[0].isFailing }
    bench.writer.replace([.file(.init(path: two))])
    try bench.waitUntilDone(30)
    #expect(try OutputBench.numbers(in: one) + OutputBench.numbers(in: two) == Array(0..<30))
    bench.stop()
  }

  /// Lines that wait for an output go to the file that is to have them from now on.
  @Test func linesOfAnOutputThatIsNoLongerRequiredMoveToTheFile() throws {
    let scratch = try ScratchDirectory()
    let ends = DescriptorPair.pipe()
    defer { for end in ends { close(end) } }
    let path = scratch.url.appending(path: "stalls.jsonl").path
    let bench = try OutputBench([.standardOutput], standardOutput: ends[1])
    let count = 1000
    bench.submit(0..<count, size: 7999)
    let stream = { bench.writer.counters().outputs.last! }
    try waitUntil { bench.done > 0 && stream().queuedLines + bench.done == count }
    let before = bench.done
    #expect(before < count / 2)
    bench.writer.replace([.file(.init(path: path)), .standardOutput])
    try bench.waitUntilDone(count)
    #expect(try OutputBench.numbers(in: path) == Array(before..<count))
    bench.stop()
  }
}
