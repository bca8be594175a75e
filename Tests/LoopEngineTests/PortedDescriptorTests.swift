import Glibc
import LoopEngine
import TestSupport
import Testing

/// What libuv's and libdispatch's suites ask of polled descriptors.
@Suite struct PortedDescriptorTests {
  private static func pair(_ type: __socket_type = SOCK_STREAM) -> (Int32, Int32) {
    var ends: [Int32] = [0, 0]
    precondition(
      socketpair(AF_UNIX, Int32(type.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    return (ends[0], ends[1])
  }

  /// One side of a connection: reads and writes in pieces of all sizes, changes its interest, and
  /// rests for a while.
  ///
  /// On one loop's thread.
  private final class Side: @unchecked Sendable {
    private let socket: Int32
    private var left: Int
    private(set) var read = 0
    private var state: UInt64
    private var isWriting: Bool { left > 0 }
    private var hasReadAll = false
    private var resting: Loop.DescriptorSource.Readiness = []
    var onEnd: () -> Void = {}

    init(_ socket: Int32, sends count: Int, seed: Int) {
      self.socket = socket
      left = count
      state = UInt64(seed)
    }

    private func random(_ limit: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % limit
    }

    private var wanted: Loop.DescriptorSource.Readiness {
      var wanted: Loop.DescriptorSource.Readiness = []
      if !hasReadAll { wanted.insert(.readable) }
      if isWriting { wanted.insert(.writable) }
      return wanted.subtracting(resting)
    }

    func serve(_ source: Loop.DescriptorSource, _ readiness: Loop.DescriptorSource.Readiness, _ loop: Loop) {
      #expect(readiness.subtracting([.hangUp, .error]).isSubset(of: source.interest))
      var buffer = [UInt8](repeating: 1, count: 1024)
      if readiness.contains(.readable) && !hasReadAll {
        switch random(5) {
        case 0: rest(.readable, source, loop)
        case 1: break
        default:
          let count = recv(socket, &buffer, 1 + random(900), 0)
          if count > 0 { read += count }
          if count == 0 { hasReadAll = true }
        }
      }
      if readiness.contains(.writable) && isWriting {
        switch random(5) {
        case 0: rest(.writable, source, loop)
        case 1: break
        default:
          let count = send(socket, &buffer, min(left, 1 + random(1000)), Int32(MSG_NOSIGNAL))
          if count > 0 { left -= count }
          if left == 0 { shutdown(socket, Int32(SHUT_WR)) }
        }
      }
      if hasReadAll && !isWriting {
        source.invalidate()
        close(socket)
        onEnd()
      } else {
        source.interest = wanted
      }
    }

    private func rest(_ what: Loop.DescriptorSource.Readiness, _ source: Loop.DescriptorSource, _ loop: Loop) {
      resting.insert(what)
      loop.perform(after: .microseconds(50)) { [self] _ in
        resting.remove(what)
        if source.isValid { source.interest = wanted }
      }
    }
  }

  /// libuv: poll_duplex, poll_unidirectional.
  @Test(.timeLimit(.minutes(5)), arguments: [true, false]) func allBytesArriveHoweverTheInterestChanges(
    _ isDuplex: Bool
  ) throws {
    let bytes = 40_000
    let counts = try onFreshLoop { loop in
      var sides: [Side] = []
      let ended = Log<Int>()
      for number in 0..<5 {
        let (client, server) = Self.pair()
        for (socket, sends) in [(client, bytes), (server, isDuplex ? bytes : 0)] {
          if sends == 0 { shutdown(socket, Int32(SHUT_WR)) }
          let side = Side(socket, sends: sends, seed: 2 * number + (socket == client ? 1 : 2))
          side.onEnd = { ended.append(1) }
          sides.append(side)
          try loop.watch(socket, for: sends > 0 ? [.readable, .writable] : .readable) { source, readiness in
            side.serve(source, readiness, loop)
          }
        }
      }
      #expect(loop.run() == .finished)
      #expect(ended.count == 10)
      return sides.map(\.read)
    }
    #expect(counts == (0..<10).map { $0 % 2 == 1 || isDuplex ? bytes : 0 })
  }

  /// libuv: poll_multiple_handles.
  @Test func theDescriptorOfARemovedSourceIsFreeForAnother() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let first = Loop.DescriptorSource(pipe.reading) { _, _ in log.append("first") }
      let second = Loop.DescriptorSource(pipe.reading) { _, _ in log.append("second") }
      try loop.add(first)
      #expect(throws: LoopError.self) { try loop.add(second) }
      // Refused, and no worse for it.
      #expect(second.isValid && !loop.contains(second, in: .common))
      loop.run(mode: .default, for: .zero)
      loop.remove(first)
      try loop.add(second)
      #expect(throws: LoopError.self) { try loop.add(first) }
      loop.run(mode: .default, for: .zero)
      second.invalidate()
      try loop.add(first)
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["first", "second", "first"])
  }

  /// libuv: poll_close.
  @Test func sourcesThatEndBeforeTheFirstRunAreNeverCalled() throws {
    let log = Log<Int>()
    let pairs = (0..<64).map { _ in Self.pair() }
    defer {
      for (one, other) in pairs {
        close(one)
        close(other)
      }
    }
    let result = try onFreshLoop { loop in
      let sources = try pairs.map { one, _ in
        try loop.watch(one, for: [.readable, .writable]) { _, _ in log.append(1) }
      }
      for source in sources { source.invalidate() }
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.count == 0)
  }

  /// libuv: poll_closesocket, poll_close_doesnt_corrupt_stack.
  @Test func aDescriptorThatIsClosedRightAfterItsSourceEndedInADeepCallHarmsNothing() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      @Sendable func dig(_ depth: Int, _ source: Loop.DescriptorSource) -> Int {
        withUnsafeTemporaryAllocation(byteCount: 1024, alignment: 16) { bytes in
          bytes.initializeMemory(as: UInt8.self, repeating: UInt8(truncatingIfNeeded: depth))
          if depth > 0 { return dig(depth - 1, source) + bytes.count { $0 != UInt8(truncatingIfNeeded: depth) } }
          source.invalidate()
          close(source.descriptor)
          // What another thread opens may get the number.
          loop.run(mode: .default, for: .zero)
          return bytes.count { $0 != 0 }
        }
      }
      for _ in 0..<8 {
        let (one, other) = Self.pair()
        try loop.watch(one, for: .writable) { source, _ in
          log.append("changed bytes: \(dig(50, source))")
          close(other)
        }
      }
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.all == Array(repeating: "changed bytes: 0", count: 8))
  }

  /// libuv: poll_oob.
  @Test func urgentDataComesAsPriorityAndTheRestAsReadable() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listener) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(client) }
    withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        precondition(bind(listener, $0, length) == 0 && listen(listener, 1) == 0)
        precondition(getsockname(listener, $0, &length) == 0 && connect(client, $0, length) == 0)
      }
    }
    let server = accept(listener, nil, nil)
    defer { close(server) }
    let urgent = Log<UInt8>()
    let ordinary = Log<UInt8>()
    let result = try onFreshLoop { loop in
      send(server, "hello", 5, Int32(MSG_OOB))
      send(server, "world", 5, 0)
      try loop.watch(client, for: [.readable, .priority, .writable]) { source, readiness in
        #expect(readiness.contains(.writable))
        var byte: UInt8 = 0
        if readiness.contains(.priority) && recv(client, &byte, 1, Int32(MSG_OOB)) == 1 {
          urgent.append(byte)
          source.interest.remove(.priority)
        }
        if readiness.contains(.readable) && recv(client, &byte, 1, Int32(MSG_DONTWAIT)) == 1 {
          ordinary.append(byte)
        }
        if urgent.count == 1 && ordinary.count == 9 { source.invalidate() }
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .finished)
    #expect(urgent.all == Array("o".utf8) && ordinary.all == Array("hellworld".utf8))
  }

  /// libuv: iouring_pollhup, pipe_set_non_blocking.
  @Test func aPipeIsReadableAfterItsHangUpAsLongAsThereIsData() throws {
    let pipe = Pipe()
    let log = Log<String>()
    for byte in [1, 2, 3] as [UInt8] { pipe.write(byte) }
    close(pipe.writing)
    let result = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { source, readiness in
        var byte: UInt8 = 0
        let count = read(pipe.reading, &byte, 1)
        log.append("\(readiness.contains(.readable)) \(count == 1 ? "\(byte)" : "end")")
        if count == 0 { source.invalidate() }
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    close(pipe.reading)
    #expect(result == .finished)
    #expect(log.all == ["true 1", "true 2", "true 3", "true end"])
  }

  /// libuv: udp_recv_cb_close_pollerr.
  @Test func aDatagramSocketReportsItsPendingErrorAndMayEndInTheCall() throws {
    let socket = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    // The discard port: nobody listens there.
    address.sin_port = UInt16(9).bigEndian
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    let log = Log<Bool>()
    let result = try onFreshLoop { loop in
      try loop.watch(socket) { source, readiness in
        var error: Int32 = 0
        var size = socklen_t(4)
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size)
        log.append(readiness.isSuperset(of: [.readable, .error]) && error == ECONNREFUSED)
        source.invalidate()
        close(socket)
      }
      send(socket, "x", 1, 0)
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .finished)
    #expect(log.all == [true])
  }

  /// libdispatch: dispatch_read.
  @Test(.timeLimit(.minutes(5))) func aPipeIsReadToItsEnd() throws {
    let pipe = Pipe()
    defer { close(pipe.reading) }
    let total = 300_000
    let writer = TestThread {
      let bytes = [UInt8](repeating: 5, count: 7777)
      var left = total
      while left > 0 { left -= max(0, write(pipe.writing, bytes, min(left, bytes.count))) }
      close(pipe.writing)
    }
    let sizes = Log<Int>()
    let result = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { source, readiness in
        #expect(readiness.contains(.readable))
        var buffer = [UInt8](repeating: 0, count: 5000)
        let count = read(pipe.reading, &buffer, buffer.count)
        sizes.append(count)
        if count <= 0 { source.invalidate() }
      }
      return loop.run()
    }
    writer.join()
    #expect(result == .finished)
    #expect(sizes.all.reduce(0, +) == total && sizes.all.last == 0)
  }

  /// libdispatch: dispatch_select.
  @Test func oneDescriptorIsWatchedInStagesEachMadeByTheEndOfTheLast() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      @Sendable func watch(_ stage: Int) {
        _ = try? loop.watch(pipe.reading) { source, _ in
          log.append(stage)
          source.invalidate()
          // Within the call itself: the number is free as soon as the source has ended.
          if stage < 5 { watch(stage + 1) }
        }
      }
      watch(1)
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.all == [1, 2, 3, 4, 5])
  }

  /// libdispatch: dispatch_vnode.
  @Test func aFileReportsEveryChangeInTheOrderInWhichItHappens() throws {
    let scratch = try ScratchDirectory()
    let directory = scratch.path
    let (path, moved) = ("\(directory)/file", "\(directory)/moved")
    precondition(mknod(path, S_IFREG | 0o600, 0) == 0)
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      let names: [(Loop.FileChangeSource.Change, String)] = [
        (.modified, "modified"), (.attributes, "attributes"), (.movedItself, "moved"), (.deletedItself, "deleted"),
        (.ended, "ended"),
      ]
      let changes: Loop.FileChangeSource.Change = [.modified, .movedItself, .deletedItself]
      try loop.add(
        Loop.FileChangeSource(path, for: changes) { change, name in
          for (one, word) in names where change.contains(one) { log.append("\(word)\(name ?? "")") }
        })
      let file = open(path, O_WRONLY | O_CLOEXEC)
      write(file, "x", 1)
      rename(path, moved)
      write(file, "y", 1)
      ftruncate(file, 0)
      close(file)
      unlink(moved)
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .finished)
    // Equal changes that follow each other are one.
    #expect(log.all == ["modified", "moved", "modified", "deleted", "ended"])
  }
}
