import Glibc
import LoopEngine
import TestSupport
import Testing

/// Files that go away, children that were faster, counters at their limit.
@Suite struct FileAndChildTests {
  private static func withDirectory<T>(_ body: (String) throws -> T) throws -> T {
    let scratch = try ScratchDirectory()
    return try body(scratch.path)
  }

  /// Makes an empty file without ever having it open.
  private static func create(_ path: String) {
    precondition(mknod(path, S_IFREG | 0o600, 0) == 0)
  }

  @Test(.timeLimit(.minutes(5))) func theRemovalOfAWatchedFileIsTheEndOfItsSource() throws {
    let log = Log<String>()
    let (result, isValid) = try Self.withDirectory { directory in
      let path = "\(directory)/file"
      Self.create(path)
      return try onFreshLoop { loop in
        let source = try Loop.FileChangeSource(path, for: .modified) { change, _ in
          log.append(change == .modified ? "modified" : change == .ended ? "ended" : "\(change.rawValue)")
        }
        try loop.add(source)
        let file = open(path, O_WRONLY | O_CLOEXEC)
        write(file, "x", 1)
        close(file)
        unlink(path)
        // Nothing else is there: the run ends with the source.
        return (loop.run(), source.isValid)
      }
    }
    #expect(log.all == ["modified", "ended"])
    #expect(result == .finished && !isValid)
  }

  @Test func aMovedFileIsFollowedAndAReplacedOneIsNot() throws {
    let log = Log<String>()
    try Self.withDirectory { directory in
      let (path, moved, fresh) = ("\(directory)/file", "\(directory)/moved", "\(directory)/fresh")
      defer { for file in [path, moved, fresh] { unlink(file) } }
      Self.create(path)
      _ = try onFreshLoop { loop in
        try loop.add(
          Loop.FileChangeSource(path, for: [.movedItself, .closedAfterWriting, .attributes]) { change, name in
            for (one, word) in [
              (Loop.FileChangeSource.Change.movedItself, "moved"), (.closedAfterWriting, "written"),
              (.attributes, "attributes"),
            ] where change.contains(one) { log.append("\(word) \(name ?? "itself")") }
          })
        rename(path, moved)
        close(open(moved, O_WRONLY | O_CLOEXEC))
        chmod(moved, 0o644)
        // Another file of the same name.
        Self.create(path)
        // A child of a fork may have had the file for a moment, and be the last to close it.
        return eventually {
          loop.run(mode: .default, for: .milliseconds(5))
          return log.count >= 3
        }
      }
    }
    #expect(log.all.first == "moved itself")
    #expect(log.all.sorted() == ["attributes itself", "moved itself", "written itself"])
  }

  @Test func directoriesAreDistinguishedAndMovesHaveTwoSides() throws {
    let log = Log<String>()
    try Self.withDirectory { directory in
      defer { rmdir("\(directory)/renamed") }
      _ = try onFreshLoop { loop in
        try loop.add(
          Loop.FileChangeSource(directory, for: [.created, .movedFrom, .movedTo]) { change, name in
            log.append(
              (change.contains(.created) ? "+" : change.contains(.movedFrom) ? "<" : ">")
                + (name ?? "") + (change.contains(.directory) ? "/" : ""))
          })
        mkdir("\(directory)/sub", 0o700)
        close(creat("\(directory)/file", 0o600))
        rename("\(directory)/sub", "\(directory)/renamed")
        unlink("\(directory)/file")
        return loop.run(mode: .default, for: .zero)
      }
    }
    #expect(log.all == ["+sub/", "+file", "<sub/", ">renamed/"])
  }

  @Test func twoSourcesOfOneFileHearBothAndAnOverflowIsReported() throws {
    let counts = try Self.withDirectory { directory in
      try onFreshLoop { loop in
        let first = Log<Bool>()
        let second = Log<Bool>()
        try loop.add(
          Loop.FileChangeSource(directory, for: [.created, .deleted]) { change, _ in
            first.append(change.contains(.overflowed))
          })
        try loop.add(Loop.FileChangeSource(directory, for: .created) { _, _ in second.append(true) })
        let limit = Self.queueLimit
        for _ in 0..<limit / 2 + 10 {
          close(creat("\(directory)/file", 0o600))
          unlink("\(directory)/file")
        }
        let end = Loop.Instant.now.advanced(by: .seconds(60))
        while !first.all.contains(true) && Loop.Instant.now < end { loop.run(mode: .default, for: .zero) }
        return (limit, first.count, first.all.last, second.count)
      }
    }
    #expect(counts.1 == counts.0 + 1)
    #expect(counts.2 == true)
    #expect(counts.3 > 0)
  }

  private static var queueLimit: Int {
    guard let file = fopen("/proc/sys/fs/inotify/max_queued_events", "r") else { return 16384 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 32)
    fgets(&line, 32, file)
    return atol(line)
  }

  private static func spawn(_ command: String) -> pid_t {
    var child: pid_t = 0
    var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sh"), strdup("-c"), strdup(command), nil]
    posix_spawn(&child, "/bin/sh", nil, nil, &arguments, nil)
    for argument in arguments { free(argument) }
    return child
  }

  @Test func aChildThatHasEndedBeforeItsSourceWasMadeIsReported() throws {
    let log = Log<Loop.ChildSource.Status>()
    let result = try onFreshLoop { loop in
      let child = Self.spawn("exit 3")
      // Ended, not waited for.
      var info = siginfo_t()
      waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT)
      try loop.add(Loop.ChildSource(child) { log.append($0) })
      return loop.run()
    }
    #expect(log.all == [.exited(3)])
    #expect(log.all.map(\.exitCode) == [3] && log.all.map(\.signal) == [nil])
    #expect(result == .finished)
  }

  @Test func aChildThatOtherCodeHasWaitedForIsUnknownOrRefused() throws {
    let log = Log<Loop.ChildSource.Status>()
    _ = try onFreshLoop { loop in
      let child = Self.spawn("read line")
      let source = try Loop.ChildSource(child) { log.append($0) }
      try loop.add(source)
      kill(child, SIGKILL)
      var status: Int32 = 0
      waitpid(child, &status, 0)
      #expect(throws: LoopError.self) { try Loop.ChildSource(child) { _ in } }
      return loop.run()
    }
    #expect(log.all == [.unknown])
  }

  @Test func manyChildrenEndInOneWaitAndEachIsReportedOnce() throws {
    let log = Log<Loop.ChildSource.Status>()
    _ = try onFreshLoop { loop in
      for code in 0..<12 { try loop.add(Loop.ChildSource(Self.spawn("exit \(code)")) { log.append($0) }) }
      return loop.run()
    }
    #expect(log.all.map { "\($0)" }.sorted() == (0..<12).map { "exited with code \($0)" }.sorted())
  }

  @Test func aCounterSumsFromAnywhereAndSaysWhenItIsFull() throws {
    let log = Log<UInt64>()
    _ = try onFreshLoop { loop in
      let counter = try Loop.CounterSource { log.append($0) }
      try loop.add(counter)
      let threads = (0..<4).map { _ in TestThread { for _ in 0..<1000 { counter.add() } } }
      for thread in threads { thread.join() }
      loop.run(mode: .default, for: .zero)
      #expect(counter.add(.max - 1))
      #expect(!counter.add(1))
      #expect(!counter.add(.max))
      #expect(counter.add(0))
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
      return 0
    }
    #expect(log.all == [4000, UInt64.max - 1])
  }

  @Test func aChildThatOtherCodeWaitedForIsUnknown() throws {
    let log = Log<Loop.ChildSource.Status>()
    _ = try onFreshLoop { loop in
      let child = Self.spawn("exit 0")
      let source = try Loop.ChildSource(child) { log.append($0) }
      waitpid(child, nil, 0)
      try loop.add(source)
      return loop.run(mode: .default, for: .seconds(10))
    }
    #expect(log.all == [.unknown])
  }
}
