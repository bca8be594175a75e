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
    result.append(
      Subject(
        name: String(cString: name), roundTrip: { peer.round_trip(Int32($0)) },
        post: { peer.post(Int32($0), Int32($1)) }, selfPost: { peer.self_post(Int32($0), Int32($1)) },
        timerChurn: { peer.timer_churn(Int32($0), Int32($1)) }, fire: { peer.fire(Int32($0)) },
        descriptors: { peer.descriptors(Int32($0), Int32($1)) }, empty: { peer.empty(Int32($0)) }))
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
  subject.fireDivisor = 1
  subject.timerChurn = { pending, count in
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
  subject.empty = { count in
    perOperation(count) { for _ in 0..<count { CFRunLoopRunInMode(mode, 0, false) } }
  }
  return subject
}

/// A serial dispatch queue; there is no turning it by hand, so the rows without a wait are left out.
func dispatch() -> Subject {
  let queue = DispatchQueue(label: "benchmark")
  let threads = TwoThreads(post: { queue.async(execute: $0) }, turn: { condition in while !condition() { usleep(50) } })
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
      // The queue stands at a gate, as the other loops do.
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
  _ = threads
  subject.timerDivisor = 20
  return subject
}

/// One NIO event loop on its own thread.
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
  subject.timerChurn = { pending, count in
    let result = Count()
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      var seed: UInt64 = 42
      func one() -> Scheduled<Void> {
        loop.scheduleTask(in: .seconds(1000) + .nanoseconds(Int64(peer_random(&seed)))) {}
      }
      let timers = (0..<pending).map { _ in one() }
      let start = peer_now()
      for _ in 0..<count { one().cancel() }
      result.value = Int(peer_now() - start)
      // Cancelling them one by one is quadratic: leave the rest to the end of the process.
      if pending <= 1000 { for timer in timers { timer.cancel() } }
      done.signal()
    }
    done.wait()
    return Double(result.value) / Double(count)
  }
  return subject
}
