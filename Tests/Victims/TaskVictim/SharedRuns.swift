// Runs of an actor that several tasks share.

actor Board {
  private var waiting: CheckedContinuation<Void, Never>?

  @inline(never)
  func hold(_ milliseconds: Int) { blockAThread(milliseconds) }

  /// Works for `microseconds`, lets the other player continue, and waits for it.
  func play(_ microseconds: Int, until end: UInt64) async {
    while nanoseconds() < end {
      spin(microseconds)
      let other = waiting
      await withCheckedContinuation { own in
        waiting = own
        other?.resume()
      }
    }
    waiting?.resume()
    waiting = nil
  }

  /// Holds the actor, and starts a task every few milliseconds.
  @inline(never)
  func startTasks(_ milliseconds: Int) {
    let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
    while nanoseconds() < end {
      Task.detached { spin(1) }
      blockAThread(5)
    }
  }
}

/// Two tasks that resume each other on an actor, in the rhythm in which such turns are checked: none of them comes from the pool.
func passOn(_ milliseconds: Int) async {
  let board = Board()
  let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
  await onThePool {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await board.hold(20) }
      group.addTask { await board.play(30_000, until: end) }
      group.addTask { await board.play(1250, until: end) }
    }
  }
}

/// A task in an actor's run, which it shares with others, starts tasks while it holds its thread.
func startTasks(_ milliseconds: Int) async {
  let board = Board()
  await onThePool {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await board.hold(60) }
      group.addTask { await board.startTasks(milliseconds) }
      group.addTask { await board.hold(1) }
    }
  }
}

@inline(never)
func spin(_ microseconds: Int) {
  let end = nanoseconds() + UInt64(microseconds) * 1000
  while nanoseconds() < end {}
}
