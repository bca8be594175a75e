import CPeers
@preconcurrency import CoreFoundation
import Dispatch
import Foundation
import NIOCore
import NIOPosix

/// The C loops, from their own module.
func cPeers() -> [Subject] {
  var result: [Subject] = []
  var pointer = peers()!
  while let name = pointer.pointee.name {
    let peer = pointer.pointee
    var subject = Subject(
      name: String(cString: name), roundTrip: { peer.round_trip(Int32($0)) },
      post: { peer.post(Int32($0), Int32($1)) }, selfPost: { peer.self_post(Int32($0), Int32($1)) },
      timerChurn: { peer.timer_churn(Int32($0), Int32($1)) }, fire: { peer.fire(Int32($0)) },
      descriptors: { peer.descriptors(Int32($0), Int32($1)) }, empty: { peer.empty(Int32($0)) })
    // It polls: 0.9 ms an event with ten thousand descriptors.
    if subject.name == "GLib" { subject.descriptorDivisor = 50 }
    if let life = peer.timer_life { subject.timerLife = { life(Int32($0)) } }
    result.append(subject)
    pointer += 1
  }
  return result
}

/// CFRunLoop on the main thread.
@MainActor
func coreFoundation() -> Subject {
  // The main loop may be used from any thread for what is done here.
  nonisolated(unsafe) let loop = CFRunLoopGetMain()!
  let keepAlive = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() + 1e9, 0, 0, 0) { _ in }
  CFRunLoopAddTimer(loop, keepAlive, kCFRunLoopDefaultMode)
  // A constant.
  nonisolated(unsafe) let mode = kCFRunLoopDefaultMode!
  let threads = TwoThreads(
    post: { block in
      CFRunLoopPerformBlock(loop, mode, block)
      CFRunLoopWakeUp(loop)
    },
    turn: { condition in while !condition() { CFRunLoopRunInMode(mode, 0.001, false) } })
  var subject = Subject(name: "CFRunLoop")
  subject.roundTrip = threads.roundTrip
  subject.post = threads.post
  subject.selfPost = threads.selfPost
  subject.timerDivisor = 500
  // A million take 20 s a round to put in; an insertion with its cancellation is then 540 µs.
  subject.mostTimers = 100_000
  subject.timerChurn = { pending, count in
    if pending > 1000 { return coreFoundationChurn(pending, max(20, count / (pending / 1000))) }
    var seed: UInt64 = 42
    let base = CFAbsoluteTimeGetCurrent() + 1000
    func timer() -> CFRunLoopTimer {
      CFRunLoopTimerCreateWithHandler(nil, base + Double(peer_random(&seed)) * 1e-9, 0, 0, 0) { _ in }
    }
    // In ascending order, or filling the array alone takes minutes.
    let timers = (0..<pending).map {
      CFRunLoopTimerCreateWithHandler(nil, base + Double($0) * 4.0 / Double(pending), 0, 0, 0) { _ in }!
    }
    for timer in timers { CFRunLoopAddTimer(loop, timer, mode) }
    let result = perOperation(count) {
      for _ in 0..<count {
        let one = timer()
        CFRunLoopAddTimer(loop, one, mode)
        CFRunLoopTimerInvalidate(one)
      }
    }
    for timer in timers.reversed() { CFRunLoopTimerInvalidate(timer) }
    return result
  }
  subject.fire = { count in
    let fired = Count()
    for _ in 0..<count {
      let timer = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() - 1, 0, 0, 0) { _ in fired.value += 1
      }
      CFRunLoopAddTimer(loop, timer, mode)
    }
    return perOperation(count) { while fired.value < count { CFRunLoopRunInMode(mode, 0.001, false) } }
  }
  subject.descriptors = { watched, count in
    let ports = (0..<watched).map { _ in Port(peer_eventfd(Int32(O_NONBLOCK))) }
    let served = Count()
    Port.ready = {
      served.value += 1
      if served.value == count {
        CFRunLoopStop(loop)
      } else {
        peer_signal(ports[Int(UInt32(truncatingIfNeeded: served.value) &* 7919 % UInt32(watched))].descriptor)
      }
    }
    for port in ports { CFRunLoopAddSource(loop, port.source, mode) }
    let result = perOperation(count) {
      peer_signal(ports[0].descriptor)
      while served.value < count { CFRunLoopRunInMode(mode, 10, false) }
    }
    for port in ports {
      CFRunLoopSourceInvalidate(port.source)
      close(port.descriptor)
    }
    return result
  }
  subject.empty = { count in
    perOperation(count) { for _ in 0..<count { CFRunLoopRunInMode(mode, 0, false) } }
  }
  subject.signalledSources = { count, passes in
    // A counter each: sources of equal contexts are one to a mode.
    let performs = UnsafeMutablePointer<Int>.allocate(capacity: count)
    performs.initialize(repeating: 0, count: count)
    defer { performs.deallocate() }
    let sources = (0..<count).map { number -> CFRunLoopSource in
      var context = CFRunLoopSourceContext()
      context.info = UnsafeMutableRawPointer(performs + number)
      context.perform = { $0!.assumingMemoryBound(to: Int.self).pointee += 1 }
      return CFRunLoopSourceCreate(nil, number % 7, &context)
    }
    for source in sources { CFRunLoopAddSource(loop, source, mode) }
    let result = perOperation(count * passes) {
      for _ in 0..<passes {
        for source in sources { CFRunLoopSourceSignal(source) }
        CFRunLoopRunInMode(mode, 0, false)
      }
    }
    for number in 0..<count {
      precondition(performs[number] == passes, "a signalled source was not performed in its pass")
    }
    for source in sources { CFRunLoopSourceInvalidate(source) }
    return result
  }
  return subject
}

/// A version 1 source, whose port on Linux is a descriptor; CFRunLoop itself reads it.
private final class Port {
  nonisolated(unsafe) static var ready: () -> Void = {}  // The main thread's alone.
  let descriptor: Int32
  let source: CFRunLoopSource

  init(_ descriptor: Int32) {
    self.descriptor = descriptor
    var context = CFRunLoopSourceContext1()
    context.version = 1
    context.info = UnsafeMutableRawPointer(bitPattern: Int(descriptor))
    context.getPort = { Int32(Int(bitPattern: $0)) }
    context.perform = { _ in Port.ready() }
    // Both versions go through the same parameter; the version says which it is.
    source = withUnsafeMutablePointer(to: &context) {
      $0.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) { CFRunLoopSourceCreate(nil, 0, $0) }
    }
  }
}

/// Many timers on a thread of their own, whose end takes them away: invalidating them one by one is quadratic.
private func coreFoundationChurn(_ pending: Int, _ count: Int) -> Double {
  let result = Count()
  let done = DispatchSemaphore(value: 0)
  _ = onThread {
    let loop = CFRunLoopGetCurrent()!
    let mode = kCFRunLoopDefaultMode!
    var seed: UInt64 = 42
    let base = CFAbsoluteTimeGetCurrent() + 1000
    func timer(_ delay: Double) -> CFRunLoopTimer {
      CFRunLoopTimerCreateWithHandler(nil, base + delay, 0, 0, 0) { _ in }
    }
    for index in 0..<pending { CFRunLoopAddTimer(loop, timer(Double(index) * 4.0 / Double(pending)), mode) }
    let start = peer_now()
    for _ in 0..<count {
      let one = timer(Double(peer_random(&seed)) * 1e-9)
      CFRunLoopAddTimer(loop, one, mode)
      CFRunLoopTimerInvalidate(one)
    }
    result.value = Int(peer_now() - start)
    done.signal()
  }
  done.wait()
  // The thread takes its timers apart; the next subject should not be measured beside that.
  sleep(1)
  return Double(result.value) / Double(count)
}

/// A serial dispatch queue; there is no turning it by hand, so the empty iteration is left out.
func dispatch() -> Subject {
  let queue = DispatchQueue(label: "benchmark")
  var subject = Subject(name: "libdispatch")
  subject.roundTrip = { count in
    let answer = peer_eventfd(0)
    defer { close(answer) }
    return perOperation(count) {
      for _ in 0..<count {
        queue.async { peer_signal(answer) }
        peer_await(answer)
      }
    }
  }
  subject.post = { batches, batch in
    var total: Int64 = 0
    for _ in 0..<batches {
      // The queue waits at a gate, as the other loops do.
      let gate = DispatchSemaphore(value: 0)
      let drained = DispatchSemaphore(value: 0)
      queue.async { gate.wait() }
      let start = peer_now()
      for _ in 0..<batch { queue.async {} }
      total += peer_now() - start
      queue.async { drained.signal() }
      gate.signal()
      drained.wait()
    }
    return Double(total) / Double(batches * batch)
  }
  subject.selfPost = { batches, batch in
    let done = DispatchSemaphore(value: 0)
    let result = perOperation(batches * batch) {
      for _ in 0..<batches {
        queue.async {
          for _ in 0..<batch { queue.async {} }
          queue.async { done.signal() }
        }
        done.wait()
      }
    }
    return result
  }
  subject.timerDivisor = 20
  subject.mostTimers = 100_000
  func timer(_ delay: DispatchTimeInterval, _ body: @escaping @Sendable () -> Void) -> any DispatchSourceTimer {
    let timer = DispatchSource.makeTimerSource(queue: queue)
    timer.schedule(deadline: .now() + delay, leeway: .nanoseconds(0))
    timer.setEventHandler(handler: body)
    timer.activate()
    return timer
  }
  subject.timerChurn = { pending, count in
    var seed: UInt64 = 42
    func one() -> any DispatchSourceTimer { timer(.nanoseconds(1_000_000_000_000 + Int(peer_random(&seed)))) {} }
    let timers = (0..<pending).map { _ in one() }
    queue.sync {}
    let result = perOperation(count) {
      for _ in 0..<count { one().cancel() }
      // The queue does its half of the work later.
      queue.sync {}
    }
    for timer in timers { timer.cancel() }
    queue.sync {}
    return result
  }
  subject.fire = { count in
    // From the moment at which all are due, so that what libdispatch does on other threads counts, too.
    let fired = Count()
    let done = DispatchSemaphore(value: 0)
    let end = Count()
    let due = DispatchTime.now() + .milliseconds(200)
    let start = peer_now() + 200_000_000
    let timers = (0..<count).map { _ in
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.schedule(deadline: due, leeway: .nanoseconds(0))
      timer.setEventHandler {
        fired.value += 1
        if fired.value == count {
          end.value = Int(peer_now())
          done.signal()
        }
      }
      timer.activate()
      return timer
    }
    done.wait()
    for timer in timers { timer.cancel() }
    return Double(end.value - Int(start)) / Double(count)
  }
  subject.descriptors = { watched, count in
    let descriptors = (0..<watched).map { _ in peer_eventfd(Int32(O_NONBLOCK)) }
    let served = Count()
    let done = DispatchSemaphore(value: 0)
    let closed = DispatchGroup()
    let sources = descriptors.map { descriptor in
      let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
      closed.enter()
      source.setEventHandler {
        peer_await(descriptor)
        served.value += 1
        if served.value == count {
          done.signal()
        } else {
          peer_signal(descriptors[Int(UInt32(truncatingIfNeeded: served.value) &* 7919 % UInt32(watched))])
        }
      }
      source.setCancelHandler {
        close(descriptor)
        closed.leave()
      }
      source.activate()
      return source
    }
    queue.sync {}
    let result = perOperation(count) {
      peer_signal(descriptors[0])
      done.wait()
    }
    for source in sources { source.cancel() }
    closed.wait()
    return result
  }
  return subject
}

/// One NIO event loop on its own thread; it has no empty iteration that one could ask for.
func nio() -> Subject {
  let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  let loop = group.next()
  var subject = Subject(name: "NIO")
  subject.roundTrip = { count in
    let answer = peer_eventfd(0)
    defer { close(answer) }
    return perOperation(count) {
      for _ in 0..<count {
        loop.execute { peer_signal(answer) }
        peer_await(answer)
      }
    }
  }
  subject.post = { batches, batch in
    var total: Int64 = 0
    for _ in 0..<batches {
      let gate = DispatchSemaphore(value: 0)
      let drained = DispatchSemaphore(value: 0)
      loop.execute { gate.wait() }
      let start = peer_now()
      for _ in 0..<batch { loop.execute {} }
      total += peer_now() - start
      loop.execute { drained.signal() }
      gate.signal()
      drained.wait()
    }
    return Double(total) / Double(batches * batch)
  }
  subject.selfPost = { batches, batch in
    let done = DispatchSemaphore(value: 0)
    return perOperation(batches * batch) {
      for _ in 0..<batches {
        loop.execute {
          for _ in 0..<batch { loop.execute {} }
          loop.execute { done.signal() }
        }
        done.wait()
      }
    }
  }
  subject.timerDivisor = 100
  subject.mostTimers = 100_000
  subject.timerChurn = { pending, count in
    let count = pending > 1000 ? count / 10 : count
    let result = Count()
    let done = DispatchSemaphore(value: 0)
    // Cancelling many one by one is quadratic: the end of a group takes them away.
    let ownGroup = pending > 1000 ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
    let loop = ownGroup?.next() ?? loop
    defer { try? ownGroup?.syncShutdownGracefully() }
    loop.execute {
      var seed: UInt64 = 42
      func one() -> Scheduled<Void> {
        loop.scheduleTask(in: .seconds(1000) + .nanoseconds(Int64(peer_random(&seed)))) {}
      }
      let timers = (0..<pending).map { _ in one() }
      let start = peer_now()
      for _ in 0..<count { one().cancel() }
      result.value = Int(peer_now() - start)
      if pending <= 1000 { for timer in timers { timer.cancel() } }
      done.signal()
    }
    done.wait()
    return Double(result.value) / Double(count)
  }
  subject.fire = { count in
    let result = Count()
    let fired = Count()
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      for _ in 0..<count {
        loop.scheduleTask(in: .nanoseconds(1000)) {
          fired.value += 1
          if fired.value == count {
            result.value = Int(peer_now()) - result.value
            done.signal()
          }
        }
      }
      usleep(1000)
      result.value = Int(peer_now())
    }
    done.wait()
    return Double(result.value) / Double(count)
  }
  subject.descriptors = { watched, count in
    let descriptors = (0..<watched).map { _ in peer_eventfd(Int32(O_NONBLOCK)) }
    let served = Count()
    let done = DispatchSemaphore(value: 0)
    let next: @Sendable () -> Void = {
      served.value += 1
      if served.value == count {
        done.signal()
      } else {
        peer_signal(descriptors[Int(UInt32(truncatingIfNeeded: served.value) &* 7919 % UInt32(watched))])
      }
    }
    // A channel, as NIO watches nothing less; it reads the descriptor itself and owns it.
    let channels = descriptors.map { descriptor in
      try! NIOPipeBootstrap(group: group).channelOption(.maxMessagesPerRead, value: 1)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(OnRead(next)) }
        }.takingOwnershipOfDescriptor(input: descriptor).wait()
    }
    let result = perOperation(count) {
      peer_signal(descriptors[0])
      done.wait()
    }
    for channel in channels { try? channel.close().wait() }
    return result
  }
  return subject
}

private final class OnRead: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  func channelRead(context: ChannelHandlerContext, data: NIOAny) { body() }
}
