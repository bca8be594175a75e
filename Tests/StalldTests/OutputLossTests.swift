import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// What is reported as written is in the file that its path leads to.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
final class OutputLossTests {
  let scratch: ScratchDirectory
  let directory: String
  var path: String { directory + "/stalls.jsonl" }

  init() throws {
    scratch = try ScratchDirectory()
    directory = scratch.url.appending(path: "logs").path
    mkdir(directory, 0o755)
  }

  private func makeBench() throws -> OutputBench {
    let bench = try OutputBench(file: .init(path: path))
    bench.submit(0..<10)
    try bench.waitUntilDone(10)
    return bench
  }

  /// Lines wait while there is an error, which is logged once; they are in the file when it is
  /// corrected.
  private func expectLinesToWait(_ bench: OutputBench, reason: String, setRight: () throws -> Void) throws {
    for number in 10..<20 {
      bench.submit([number])
      usleep(20_000)
    }
    try waitUntil("it fails") { bench.writer.counters().outputs[0].errors > 3 }
    #expect(bench.done == 10, "nothing is done meanwhile")
    #expect(bench.writer.counters().outputs[0].isFailing)
    #expect(bench.errors.count == 1 && bench.errors[0].contains(reason), "\(bench.said)")
    try setRight()
    try bench.waitUntilDone(20)
    #expect(try OutputBench.numbers(in: path) == Array(10..<20))
    bench.stop()
    // What is set right in steps may be another error in between.
    #expect(bench.errors.count { $0.contains(reason) } == 1, "\(bench.said)")
    #expect(bench.said.last?.contains("accepts writes again") == true, "\(bench.said)")
  }

  @Test func linesWaitWhileTheirDirectoryIsGone() throws {
    let bench = try makeBench()
    try FileManager.default.removeItem(atPath: directory)
    try expectLinesToWait(bench, reason: "No such file or directory") { mkdir(directory, 0o755) }
  }

  /// The log and the status have the reason of now, and not the one of before.
  @Test func reasonThatChangesIsLogged() throws {
    let bench = try makeBench()
    func failure() -> String? { bench.writer.counters().outputs[0].failure }
    try FileManager.default.removeItem(atPath: directory)
    bench.submit([10])
    try waitUntil { failure() == "No such file or directory" }
    try Data().write(to: URL(fileURLWithPath: directory))
    try waitUntil { failure() == "Not a directory" }
    #expect(bench.writer.counters().outputs[0].problem == "file \(path) not accepting writes: Not a directory")
    unlink(directory)
    mkdir(directory, 0o755)
    try bench.waitUntilDone(11)
    bench.stop()
    let kept = "lines are kept; retrying"
    #expect(
      bench.errors.prefix(2) == [
        "error: file \(path): No such file or directory; \(kept)", "error: file \(path): Not a directory; \(kept)",
      ])
    #expect(failure() == nil)
  }

  @Test(.enabled(if: geteuid() == 0, "chown needs root"))
  func linesWaitWhileTheirDirectoryIsAnotherUsers() throws {
    let bench = try makeBench()
    try FileManager.default.removeItem(atPath: directory)
    mkdir(directory, 0o777)
    chown(directory, 65534, 65534)
    try expectLinesToWait(bench, reason: "now belongs to user 65534") {
      #expect(!FileManager.default.fileExists(atPath: path), "nothing is made there")
      chown(directory, 0, 0)
    }
  }

  @Test func linesWaitWhileTheirDirectoryIsASymbolicLink() throws {
    let bench = try makeBench()
    try FileManager.default.removeItem(atPath: directory)
    let other = scratch.url.appending(path: "other").path
    mkdir(other, 0o755)
    try FileManager.default.createSymbolicLink(atPath: directory, withDestinationPath: other)
    try expectLinesToWait(bench, reason: "symbolic link") {
      #expect(!FileManager.default.fileExists(atPath: other + "/stalls.jsonl"), "nothing is made there")
      unlink(directory)
      mkdir(directory, 0o755)
    }
  }

  /// systemd makes such a link for a unit with `DynamicUser=`.
  @Test func directoryMayHaveBeenASymbolicLinkAtTheStart() throws {
    let link = scratch.url.appending(path: "link").path
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory)
    let bench = try OutputBench(file: .init(path: link + "/stalls.jsonl"))
    bench.submit(0..<3)
    try bench.waitUntilDone(3)
    unlink(path)
    bench.submit(3..<5)
    try bench.waitUntilDone(5)
    bench.stop()
    #expect(try OutputBench.numbers(in: path) == [3, 4])
  }

  /// Removed at any moment of a steady flow: each line that is done is in the file of its time, or in the next one.
  @Test func nothingIsDoneInAFileThatWasRemoved() throws {
    let bench = try makeBench()
    for start in stride(from: 10, to: 2010, by: 20) {
      let before = bench.done
      unlink(path)
      bench.submit(start..<start + 20)
      try bench.waitUntilDone(start + 20)
      #expect(before == start)
      #expect(try OutputBench.numbers(in: path) == Array(start..<start + 20))
    }
    bench.stop()
    #expect(bench.said.isEmpty, "a new file was made at once: \(bench.said)")
  }

  @Test func linesWaitWhileTheFileCannotBeOpenedAgain() throws {
    let bench = try makeBench()
    // As by a logrotate that makes something else there.
    rename(path, path + ".1")
    mkdir(path, 0o755)
    bench.submit(10..<20)
    try waitUntil { bench.writer.counters().outputs[0].isFailing }
    #expect(bench.done == 10)
    rmdir(path)
    try bench.waitUntilDone(20)
    #expect(try OutputBench.numbers(in: path + ".1") + OutputBench.numbers(in: path) == Array(0..<20))
    bench.stop()
  }
}
