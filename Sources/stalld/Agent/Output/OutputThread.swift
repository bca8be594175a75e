import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// One output: its queue, its destination, and the thread that writes.
///
/// An output that hangs keeps its own thread, and nobody waits for that without a limit.
final class OutputThread: Sendable {
  /// Something that the thread does, and that is waited for with a limit.
  final class Task: Sendable {
    private let end = WakeSemaphore()
    private let failure = Mutex<OutputError?>(nil)

    func finish(_ failure: OutputError? = nil) {
      self.failure.withLock { $0 = failure }
      end.post()
    }

    /// False if the time is over.
    func wait(until deadline: Loop.Instant) -> Bool { end.wait(for: Loop.Instant.now.duration(to: deadline)) }

    /// Throws if it has failed, or is not over in time.
    func result(of name: String, by deadline: Loop.Instant) throws(OutputError) {
      if !wait(until: deadline) { throw OutputError(name, "does not respond") }
      if let failure = failure.withLock({ $0 }) { throw failure }
    }
  }

  let queue: OutputQueue
  private let thread = PermanentThread(name: "stalld-output")
  private let loop: Loop
  private let delivery: Delivery

  /// `didProgress` is called on the thread when lines have left the queue.
  init(
    _ destination: any LineDestination, say: @escaping OutputWriter.Say, didProgress: @escaping @Sendable () -> Void
  ) throws(OutputError) {
    do { try thread.start() } catch { throw OutputError(destination.name, "\(error)") }
    loop = thread.loop!
    queue = OutputQueue(name: destination.name)
    delivery = Delivery(destination, queue: queue, loop: loop, say: say, didProgress: didProgress)
    // What a full pipe or a file at its limit would end the process with becomes an error of the call.
    loop.perform {
      ThreadSignals.block([SIGPIPE, SIGXFSZ])
      clinux_request_short_slice(true)
    }
  }

  func open() -> Task {
    let task = Task()
    loop.perform(name: "output is opened") { [delivery] in
      do throws(OutputError) {
        try delivery.destination.open()
        task.finish()
      } catch { task.finish(error) }
    }
    return task
  }

  /// Reports that an earlier run has written to this output alone; before any line is sent.
  func remember(_ known: KnownReports) {
    loop.perform(name: "known reports") { [delivery] in delivery.known = known }
  }

  /// Wakes the thread for lines that were put into its queue.
  func wake() { loop.perform(name: "lines are written") { [delivery] in delivery.linesCame() } }

  func update(_ settings: AgentSettings.Output) {
    loop.perform(name: "output is configured") { [delivery] in
      DestinationMaker.update(delivery.destination, to: settings)
    }
  }

  func reopen() {
    loop.perform(name: "output is reopened") { [delivery] in delivery.reopen() }
  }

  /// Sends what goes without waiting; nothing is sent afterwards.
  func close() -> Task {
    let task = Task()
    loop.perform(name: "output is closed") { [delivery] in
      delivery.close()
      task.finish()
    }
    return task
  }

  /// Waits for the end of the thread, which has been closed.
  func end() { thread.stop() }
}
