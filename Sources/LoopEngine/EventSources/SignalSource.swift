import CLinux
import PlatformLibc

extension Loop {
  /// A source that reports Unix signals, through a signalfd.
  ///
  /// The closure is ordinary code, not a signal handler.
  ///
  /// - Important: The signals are blocked in the calling thread when the source is made, and stay so. A signal reaches
  ///   a signalfd only if *every* thread blocks it, so make the source on the main thread before there are others:
  ///   threads inherit the mask, and so do child processes. The signal's default action does not happen.
  ///
  /// Several sources may listen to one signal, on whatever loops: each is called for each delivery that one of them
  /// reads, if it is in a mode of its loop by then.
  public final class SignalSource: DescriptorSource, @unchecked Sendable {
    /// One delivery.
    public struct Delivery: Sendable {
      /// The signal's number.
      public let signal: Int32
      /// The process that sent it, 0 when the kernel did.
      public let sender: Int32
      /// The real user of the sender.
      public let user: UInt32
    }

    /// Makes a source for some signals; it works once it is added to a loop.
    ///
    /// - Parameters:
    ///   - signals: Their numbers.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread for each delivery; signals of one number that were pending together are
    ///     one, except real-time signals.
    /// - Throws: ``LoopError`` when there is no descriptor left, or if a number is no signal or a signal that
    ///   cannot be received (`SIGKILL`, `SIGSTOP`): `EINVAL`. The thread's mask is then unchanged.
    public init(
      _ signals: [Int32], name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
      body: sending @escaping (Delivery) -> Void
    ) throws(LoopError) {
      var set = sigset_t()
      sigemptyset(&set)
      for signal in signals where signal == SIGKILL || signal == SIGSTOP || sigaddset(&set, signal) != 0 {
        throw LoopError("watch signal \(signal)", errorNumber: EINVAL)
      }
      let descriptor = signalfd(-1, &set, Int32(SFD_CLOEXEC | SFD_NONBLOCK))
      if descriptor < 0 { throw LoopError("make a signalfd for signals \(signals)") }
      let owned = OwnedDescriptor(descriptor)
      // Last, so that a failure leaves no signal blocked that nobody would read.
      let blocked = pthread_sigmask(SIG_BLOCK, &set, nil)
      if blocked != 0 { throw LoopError("block signals \(signals)", errorNumber: blocked) }
      let listener = SignalListener(signals, body: body)
      super.init(descriptor, name: name, file: file, line: line) { source, _ in
        var info = signalfd_siginfo()
        while source.isValid && read(owned.number, &info, MemoryLayout<signalfd_siginfo>.size) > 0 {
          listener.take(
            Delivery(signal: Int32(info.ssi_signo), sender: Int32(bitPattern: info.ssi_pid), user: info.ssi_uid))
        }
      }
      listener.register(source: self)
    }
  }
}
