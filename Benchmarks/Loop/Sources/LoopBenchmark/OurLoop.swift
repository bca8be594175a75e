import CPeers
import Foundation
import LoopEngine

/// Ours, on the main thread and with the main queue served, as a service would run it.
@MainActor
func ourLoop() -> Subject {
  let loop = Loop.main
  // Keeps the mode from being empty.
  loop.add(Loop.Source {})
  var subject = Subject(name: "LoopEngine")
  subject.roundTrip = { count in ourRoundTrip(loop, count) }
  subject.post = { batches, batch in ourPost(loop, batches, batch) }
  subject.selfPost = { batches, batch in
    // In one line of code with its closure, as a user writes it.
    let remaining = Count()
    return perOperation(batches * batch) {
      for _ in 0..<batches {
        remaining.value = batch
        for _ in 0..<batch { loop.perform { remaining.value -= 1 } }
        while remaining.value > 0 { loop.run(mode: .default, for: .zero) }
      }
    }
  }
  subject.timerChurn = { pending, count in
    var seed: UInt64 = 42
    let base = Loop.Instant.now.advanced(by: .seconds(1000))
    func date() -> Loop.Instant { Loop.Instant(nanoseconds: base.nanoseconds + Int64(peer_random(&seed))) }
    let timers = (0..<pending).map { _ in Loop.Timer(at: date()) { _ in } }
    for timer in timers { loop.add(timer) }
    let one = Loop.Timer(at: date()) { _ in }
    let result = churn(loop, one, base.nanoseconds, count)
    for timer in timers { timer.invalidate() }
    return result
  }
  subject.timerLife = { count in
    let far = Loop.Instant.now.advanced(by: .seconds(1000))
    return perOperation(count) {
      for _ in 0..<count {
        let timer = Loop.Timer(at: far) { _ in }
        loop.add(timer)
        timer.invalidate()
      }
    }
  }
  subject.fire = { count in
    var seed: UInt64 = 42
    let base = Loop.Instant.now.nanoseconds - 4_000_000_000
    let fired = Count()
    for _ in 0..<count {
      loop.add(Loop.Timer(at: Loop.Instant(nanoseconds: base + Int64(peer_random(&seed)))) { _ in fired.value += 1 })
    }
    return perOperation(count) { while fired.value < count { loop.run(mode: .default, for: .zero) } }
  }
  subject.descriptors = { watched, count in ourDescriptors(loop, watched, count, haveOwnClosures: false) }
  subject.descriptorsWithClosures = { watched, count in ourDescriptors(loop, watched, count, haveOwnClosures: true) }
  subject.empty = { count in
    perOperation(count) { for _ in 0..<count { loop.run(mode: .default, for: .zero) } }
  }
  subject.signalledSources = { count, passes in
    let performed = Count()
    // In seven orders, so that there is something to sort.
    let sources = (0..<count).map { number in Loop.Source(order: number % 7) { performed.value += 1 } }
    for source in sources { loop.add(source) }
    let result = perOperation(count * passes) {
      for _ in 0..<passes {
        for source in sources { source.signal() }
        loop.run(mode: .default, for: .zero)
      }
    }
    precondition(performed.value == count * passes, "a signalled source was not performed in its pass")
    for source in sources { source.invalidate() }
    return result
  }
  return subject
}

/// Within one run, as in a service: the callback writes to the next descriptor.
///
/// - Parameters:
///   - loop: The loop.
///   - watched: How many descriptors it watches.
///   - count: How many events there are.
///   - haveOwnClosures: Whether each source captures something of its own, which the other loops' functions do not.
/// - Returns: Nanoseconds an event.
@MainActor
private func ourDescriptors(_ loop: Loop, _ watched: Int, _ count: Int, haveOwnClosures: Bool) -> Double {
  let served = Count()
  // Unsafe, and safe: it is filled before the run, and read by the loop's thread.
  nonisolated(unsafe) let descriptors = UnsafeMutablePointer<Int32>.allocate(capacity: watched)
  defer { descriptors.deallocate() }
  let index = Count()
  let serve: @Sendable (Int32) -> Void = { descriptor in
    peer_await(descriptor)
    served.value += 1
    if served.value == count {
      loop.stop()
    } else {
      index.value += 1
      peer_signal(descriptors[Int(UInt32(truncatingIfNeeded: index.value) &* 7919 % UInt32(watched))])
    }
  }
  // One closure for all, as the other loops have one function for all.
  let shared: @Sendable (Loop.DescriptorSource, Loop.DescriptorSource.Readiness) -> Void = { source, _ in
    serve(source.descriptor)
  }
  // Made and watched one by one, as the other loops do and as connections come.
  let chained = (0..<watched).map { position in
    let descriptor = peer_eventfd(Int32(O_NONBLOCK))
    descriptors[position] = descriptor
    if haveOwnClosures { return try! loop.watch(descriptor) { _, _ in serve(descriptor) } }
    return try! loop.watch(descriptor, body: shared)
  }
  let result = perOperation(count) {
    peer_signal(descriptors[0])
    loop.run()
  }
  for source in chained { source.invalidate() }
  for position in 0..<watched { close(descriptors[position]) }
  return result
}

/// The poster's time alone, in one line of code with its closure, as a user writes it.
private func ourPost(_ loop: Loop, _ batches: Int, _ batch: Int) -> Double {
  let full = peer_eventfd(0)
  let gate = peer_eventfd(0)
  defer {
    close(full)
    close(gate)
  }
  let remaining = Count()
  let total = Count()
  let done = DispatchSemaphore(value: 0)
  remaining.value = batch
  _ = onThread {
    for _ in 0..<batches {
      let start = peer_now()
      for _ in 0..<batch { loop.perform { remaining.value -= 1 } }
      total.value += Int(peer_now() - start)
      peer_signal(full)
      peer_await(gate)
    }
    done.signal()
  }
  for _ in 0..<batches {
    peer_await(full)
    while remaining.value > 0 { loop.run(mode: .default, for: .zero) }
    remaining.value = batch
    peer_signal(gate)
  }
  done.wait()
  return Double(total.value) / Double(batches * batch)
}

/// Apart, so that the loop has no captured variable, whose exclusivity check would be measured as well.
private func churn(_ loop: Loop, _ timer: Loop.Timer, _ base: Int64, _ count: Int) -> Double {
  var seed: UInt64 = 42
  let start = peer_now()
  for _ in 0..<count {
    timer.nextFireDate = Loop.Instant(nanoseconds: base + Int64(peer_random(&seed)))
    loop.add(timer)
    loop.remove(timer)
  }
  return Double(peer_now() - start) / Double(count)
}

/// A round trip within one run.
private func ourRoundTrip(_ loop: Loop, _ count: Int) -> Double {
  let answer = peer_eventfd(0)
  defer { close(answer) }
  let remaining = Count()
  let result = Count()
  remaining.value = count
  let done = DispatchSemaphore(value: 0)
  _ = onThread {
    let start = peer_now()
    for _ in 0..<count {
      loop.perform {
        remaining.value -= 1
        peer_signal(answer)
        if remaining.value == 0 { loop.stop() }
      }
      peer_await(answer)
    }
    result.value = Int(peer_now() - start)
    done.signal()
  }
  loop.run()
  done.wait()
  return Double(result.value) / Double(count)
}

/// What one observer costs per call: a hook of the monitor's kind, and an ordinary one.
@MainActor
func observerCost(_ count: Int) -> (hook: Double, closure: Double) {
  let loop = Loop.main
  func turns() -> Double {
    perOperation(count) { for _ in 0..<count { loop.run(mode: .default, for: .zero) } }
  }
  let called = Count()
  // Four calls in each such run.
  let activities: Loop.Activity = [.entry, .beforeTimers, .beforeSources, .exit]
  var hooks: [Double] = []
  var closures: [Double] = []
  for _ in 0..<9 {
    let without = turns()
    let observer = loop.observe(activities) { _, _ in called.value += 1 }
    closures.append((turns() - without) / 4)
    observer.invalidate()
  }
  for _ in 0..<9 {
    let without = turns()
    let observer = loop.observe(activities, in: .default, order: .min) { _, _ in }
    hooks.append((turns() - without) / 4)
    observer.invalidate()
  }
  return (hooks.sorted()[4], closures.sorted()[4])
}
