import BenchmarkSupport
import CPeers
import Foundation

/// Nanoseconds per operation of `body`, which does `count` of them.
func perOperation(_ count: Int, _ body: () -> Void) -> Double {
  let start = peer_now()
  body()
  return Double(peer_now() - start) / Double(count)
}

/// One measurement in a process of its own; nil if the subject has no such row.
func measureApart(_ row: String, _ subject: String) throws -> Double? {
  let text = try runMyself(["--measure", row, "--subject", subject])
  return Double(text.trimmingCharacters(in: .whitespacesAndNewlines))
}

func onThread(_ body: @escaping @Sendable () -> Void) -> Thread {
  let thread = Thread(block: body)
  thread.start()
  return thread
}

/// A number that a callback on the loop's thread counts in; nobody else touches it while the loop runs.
final class Count: @unchecked Sendable {
  var value = 0
}

/// The rows that need two threads, in terms of a way to post and a way to run the loop until something is so.
struct TwoThreads {
  /// Posts a closure from any thread.
  var post: @Sendable (@escaping @Sendable () -> Void) -> Void
  /// Turns the loop until the condition holds; called on the loop's thread.
  var turn: (() -> Bool) -> Void

  func roundTrip(_ count: Int) -> Double {
    let answer = peer_eventfd(0)
    defer { close(answer) }
    let remaining = Count()
    let result = Count()
    remaining.value = count
    let post = post
    let done = DispatchSemaphore(value: 0)
    _ = onThread {
      let start = peer_now()
      for _ in 0..<count {
        post {
          remaining.value -= 1
          peer_signal(answer)
        }
        peer_await(answer)
      }
      result.value = Int(peer_now() - start)
      done.signal()
    }
    turn { remaining.value == 0 }
    done.wait()
    return Double(result.value) / Double(count)
  }

  /// The poster's time alone: the loop's thread waits at a gate while a batch is posted, and drains
  /// it afterwards.
  func post(_ batches: Int, _ batch: Int) -> Double {
    let full = peer_eventfd(0)
    let gate = peer_eventfd(0)
    defer {
      close(full)
      close(gate)
    }
    let remaining = Count()
    let total = Count()
    let post = post
    let done = DispatchSemaphore(value: 0)
    remaining.value = batch
    _ = onThread {
      for _ in 0..<batches {
        let start = peer_now()
        for _ in 0..<batch { post { remaining.value -= 1 } }
        total.value += Int(peer_now() - start)
        peer_signal(full)
        peer_await(gate)
      }
      done.signal()
    }
    for _ in 0..<batches {
      peer_await(full)
      turn { remaining.value == 0 }
      remaining.value = batch
      peer_signal(gate)
    }
    done.wait()
    return Double(total.value) / Double(batches * batch)
  }

  func selfPost(_ batches: Int, _ batch: Int) -> Double {
    let remaining = Count()
    return perOperation(batches * batch) {
      for _ in 0..<batches {
        remaining.value = batch
        for _ in 0..<batch { post { remaining.value -= 1 } }
        turn { remaining.value == 0 }
      }
    }
  }
}
