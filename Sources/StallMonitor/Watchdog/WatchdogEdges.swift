import StallCapture
import StallDetection
import StallReport

/// What takes the samples of stalls; ``StallSampler`` captures threads of this process.
///
/// Belongs to the watchdog's thread.
protocol StallSampling: AnyObject {
  /// Whether threads that run are sampled, and not only those that are blocked.
  var samplesRunningThreads: Bool { get set }

  /// Forgets modules that may have been unloaded since; called when a stall begins.
  func prepare(_ loop: WatchedLoop)

  /// Takes a sample of the stalled thread and adds it.
  func sample(_ loop: WatchedLoop) -> StallSampler.Finding

  /// Takes a few more samples of a stall on CPU, right after the first, for `budget` nanoseconds at most.
  func followUp(_ loop: WatchedLoop, budget: UInt64)

  /// Takes the stack of a late turn's thread into a buffer, while there is no memory for more; allocates nothing.
  func buffer(_ thread: ServingThread) -> BufferedSnapshot?

  /// Adds the first sample of a stall that had to wait for memory.
  func addSample(of deferred: WatchedLoop.DeferredTurn, to loop: WatchedLoop) -> StallSampler.Finding

  /// Closes what the thread has opened.
  func finishThread()
}

/// What gets the watchdog's findings; ``ReporterThread`` makes reports of them.
///
/// All methods but the last return at once.
protocol StallSink: AnyObject {
  /// Takes what has happened to a stall.
  func post(_ update: StallUpdate)
  /// Takes a freeze of the whole process.
  func post(freeze report: Report)
  /// Takes stalls of which nothing is known but how long they lasted together.
  func post(lost count: UInt64, lasting total: UInt64, like update: StallUpdate)
  /// Changes what is reported, from the next stall on.
  func tune(window: UInt64, budget: Int)
  /// Sends all summaries.
  func summarize()
  /// The last call; waits until what was taken is reported, or abandons it.
  func end(abandoning: Bool)
}

extension ReporterThread: StallSink {}

/// What counts for the threads of loops; ``ProcessCounters`` reads the kernel's counters.
protocol UsageCounter {
  /// What has been counted for a thread, its group and the machine up to `time`; nil if that is not known.
  func usage(of probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage?
  /// The same of the thread alone.
  func usageOfThread(_ probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage?
}

extension ProcessCounters: UsageCounter {}
