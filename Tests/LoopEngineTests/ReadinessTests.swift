import CLinux
import Glibc
import LoopEngine
import TestSupport
import Testing

/// What the kernel's events become, for sockets and pipes in all their states.
@Suite struct ReadinessTests {
  private static func socketPair() -> (Int32, Int32) {
    var ends: [Int32] = [0, 0]
    precondition(
      socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    return (ends[0], ends[1])
  }

  /// What a descriptor is ready for now, or within the time: another process, such as a child of a
  /// fork, may have the other end for a moment.
  private static func readiness(
    of descriptor: Int32, for interest: Loop.DescriptorSource.Readiness, within time: Duration = .zero
  ) throws -> Loop.DescriptorSource.Readiness? {
    let log = Log<Loop.DescriptorSource.Readiness>()
    _ = try onFreshLoop { loop in
      try loop.watch(descriptor, for: interest) { _, readiness in log.append(readiness) }
      return loop.run(mode: .default, for: time, returnAfterSourceHandled: true)
    }
    return log.all.first
  }

  @Test func aSocketIsReadyForWhatItIsReadyFor() throws {
    let (one, other) = Self.socketPair()
    defer { close(one) }
    #expect(try Self.readiness(of: one, for: .readable) == nil)
    #expect(try Self.readiness(of: one, for: .writable) == .writable)
    #expect(try Self.readiness(of: one, for: [.readable, .writable]) == .writable)
    send(other, "x", 1, 0)
    #expect(try Self.readiness(of: one, for: [.readable, .writable]) == [.readable, .writable])
    #expect(try Self.readiness(of: one, for: [.writable]) == .writable)
    // Half closed: the end can be read, and writing is still possible.
    shutdown(other, Int32(SHUT_WR))
    #expect(try Self.readiness(of: one, for: [.readable]) == .readable)
    #expect(try Self.readiness(of: one, for: [.hangUp]) == .hangUp)
    #expect(try Self.readiness(of: one, for: [.readable, .writable, .hangUp]) == [.readable, .writable, .hangUp])
    #expect(try Self.readiness(of: one, for: []) == nil)
    close(other)
    #expect(try Self.readiness(of: one, for: [], within: .seconds(60)) == .hangUp)
    #expect(try Self.readiness(of: one, for: .readable) == [.readable, .hangUp])
  }

  @Test func theEndOfAPipeIsReadableAndItsLostReaderWritable() throws {
    let pipe = Pipe()
    close(pipe.writing)
    // epoll says EPOLLHUP and nothing else here.
    #expect(try Self.readiness(of: pipe.reading, for: .readable, within: .seconds(60)) == [.readable, .hangUp])
    close(pipe.reading)

    let full = Pipe()
    _ = fcntl(full.writing, F_SETFL, O_NONBLOCK)
    let bytes = [UInt8](repeating: 0, count: 65536)
    while write(full.writing, bytes, bytes.count) > 0 {}
    #expect(try Self.readiness(of: full.writing, for: .writable) == nil)
    close(full.reading)
    // epoll says EPOLLERR and nothing else here.
    #expect(try Self.readiness(of: full.writing, for: .writable, within: .seconds(60)) == [.writable, .error])
    close(full.writing)
  }

  @Test func aRefusedConnectionIsAnErrorThatAWriterSees() throws {
    let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    defer { close(socket) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    address.sin_port = UInt16(1).bigEndian
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    let readiness = try #require(try Self.readiness(of: socket, for: .writable, within: .seconds(60)))
    #expect(readiness.isSuperset(of: [.writable, .error]))
  }

  @Test func outOfBandDataIsPriority() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listener) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        precondition(bind(listener, $0, length) == 0 && listen(listener, 1) == 0)
        precondition(getsockname(listener, $0, &length) == 0 && connect(client, $0, length) == 0)
      }
    }
    let server = accept(listener, nil, nil)
    defer { close(server) }
    #expect(send(client, "!", 1, Int32(MSG_OOB)) == 1)
    let log = Log<Loop.DescriptorSource.Readiness>()
    _ = try onFreshLoop { loop in
      try loop.watch(server, for: [.readable, .priority]) { _, readiness in log.append(readiness) }
      return loop.run(mode: .default, for: .seconds(10), returnAfterSourceHandled: true)
    }
    #expect(log.all.first?.contains(.priority) == true)
  }

  @Test func onlyWhatCannotBePolledIsRefused() throws {
    let null = open("/dev/null", O_RDWR)
    let inner = epoll_create1(0)
    let counter = eventfd(3, 0)
    let waiting = Log<Int32>()
    defer { for descriptor in [null, inner, counter] { close(descriptor) } }
    _ = try onFreshLoop { loop in
      #expect(throws: LoopError.self) { try loop.watch(null) { _, _ in } }
      #expect(throws: LoopError.self) { try loop.watch(-1) { _, _ in } }
      // An epoll instance is a descriptor like any other: ready when something in it is.
      var event = epoll_event()
      event.events = EPOLLIN.rawValue
      epoll_ctl(inner, EPOLL_CTL_ADD, counter, &event)
      try loop.watch(inner) { source, _ in waiting.append(source.descriptor) }
      try loop.watch(counter) { source, _ in waiting.append(source.descriptor) }
      return loop.run(mode: .default, for: .zero)
    }
    #expect(Set(waiting.all) == [inner, counter])
    // Never read for the user.
    var value: UInt64 = 0
    #expect(eventfd_read(counter, &value) == 0 && value == 3)
  }

  @Test func interestThatAnEarlierCallHasRemovedIsNotServed() throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<Int>()
    let sources = Log<Loop.DescriptorSource>()
    _ = try onFreshLoop { loop in
      for (index, pipe) in pipes.enumerated() {
        // Whichever comes first silences the other, which is ready as well.
        sources.append(
          try loop.watch(pipe.reading) { _, _ in
            log.append(index)
            sources.all[1 - index].interest = []
            pipe.read()
          })
        pipe.write()
      }
      return loop.run(mode: .default, for: .milliseconds(5))
    }
    #expect(log.count == 1)
  }

  @Test func aSourceThatAnEarlierCallHasTakenOutOfTheModeIsNotServedInIt() throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<Int>()
    let sources = Log<Loop.DescriptorSource>()
    _ = try onFreshLoop { loop in
      for (index, pipe) in pipes.enumerated() {
        let source = Loop.DescriptorSource(pipe.reading) { _, _ in
          log.append(index)
          loop.remove(sources.all[1 - index], from: .default)
          pipe.read()
        }
        sources.append(source)
        try loop.add(source, to: .default)
        // Still there, in a mode that does not run.
        try loop.add(source, to: .tests)
        pipe.write()
      }
      return loop.run(mode: .default, for: .milliseconds(5))
    }
    #expect(log.count == 1)
  }

  @Test func aSourceThatAnotherThreadHasEndedIsNotCalledAgain() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = try loop.watch(pipe.reading) { _, _ in log.append("called") }
      // Ready and ended in the same wait: between the kernel's answer and the call.
      loop.observe(.afterWaiting, repeats: false) { _, _ in TestThread { source.invalidate() }.join() }
      pipe.write()
      return loop.run(mode: .default, for: .milliseconds(5))
    }
    #expect(log.all.isEmpty)
  }

  @Test func sourcesThatEndEachOtherAreCalledOncePerSurvivor() throws {
    let pipes = (0..<300).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<Int>()
    let sources = Log<Loop.DescriptorSource>()
    _ = try onFreshLoop { loop in
      for (index, pipe) in pipes.enumerated() {
        sources.append(
          try loop.watch(pipe.reading) { source, _ in
            guard source.isValid else { return log.append(-1) }
            log.append(index)
            source.invalidate()
            // The partner of each pair ends with it, and its descriptor comes back as another file at once.
            let partner = sources.all[index ^ 1]
            partner.invalidate()
            dup2(pipes[index].reading, pipes[index ^ 1].reading)
          })
        pipe.write()
      }
      return loop.run()
    }
    #expect(log.count == 150)
    #expect(Set(log.all.map { $0 / 2 }).count == 150)
  }

  @Test func anInterestThatAnotherThreadSetsReachesASleepingLoop() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let log = Log<Loop.DescriptorSource.Readiness>()
    let source = try loop.watch(pipe.reading, for: []) { source, readiness in
      log.append(readiness)
      source.interest = []
    }
    for round in 1...3 {
      while !loop.isWaiting { sleepBriefly() }
      #expect(log.count == round - 1 && source.interest == [])
      source.interest = .readable
      #expect(eventually { log.count == round })
    }
    thread.stop()
    #expect(log.all == [.readable, .readable, .readable])
  }

  @Test func aSourceReportsOnlyWhatItAskedFor() throws {
    let (one, other) = Self.socketPair()
    defer { for end in [one, other] { close(end) } }
    send(other, "x", 1, 0)
    shutdown(other, Int32(SHUT_WR))
    // Readable, writable and half closed.
    #expect(try Self.readiness(of: one, for: []) == nil)
    #expect(try Self.readiness(of: one, for: .readable) == .readable)
    #expect(try Self.readiness(of: one, for: .hangUp) == .hangUp)
    #expect(try Self.readiness(of: one, for: .priority) == nil)
    // Bits that mean nothing are dropped.
    let source = Loop.DescriptorSource(one, for: Loop.DescriptorSource.Readiness(rawValue: .max)) { _, _ in }
    #expect(source.interest == [.readable, .writable, .hangUp, .error, .priority])
    source.interest = Loop.DescriptorSource.Readiness(rawValue: 1 << 31)
    #expect(source.interest == [] && source.isValid)
  }
}
