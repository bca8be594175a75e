/// What the monitor does about a stall that lasts for a certain time, beside reporting it.
///
/// Each is done once a stall, whether the stall is told or counted as a repetition. What is to be said of the stall has been written
/// before.
public struct StallAction: Sendable, Equatable {
  enum Deed: Sendable, Equatable {
    case call(Handler)
    case writeDetailFile
    case abort
  }

  /// A closure that is the same as itself alone.
  final class Handler: Sendable, Equatable {
    let body: @Sendable (StallNotice) -> Void
    init(_ body: @escaping @Sendable (StallNotice) -> Void) { self.body = body }
    static func == (a: Handler, b: Handler) -> Bool { a === b }
  }

  /// How long the stall must have lasted, without the time in which the whole process was frozen.
  public let after: Duration
  let deed: Deed

  /// Calls a closure of the host's.
  ///
  /// It runs on the watchdog's thread, which holds no lock of the monitor's then, and may call the monitor's methods. Keep it short: nothing is
  /// watched before it returns, and systemd is not told that the service is well. It must not wait for the loop, which stands still.
  /// The host's signals are blocked in that thread, and a crash in the closure is the host's crash. A stall that ends as soon as it has lasted for the time may be over when
  /// the closure is called; then the notice's event says so.
  ///
  /// - Parameters:
  ///   - after: From zero, which is as soon as the stall is known, to 1 h.
  ///   - body: What to call.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func call(
    after: Duration = .zero, _ body: @escaping @Sendable (StallNotice) -> Void
  ) -> StallAction { StallAction(after: after, deed: .call(Handler(body))) }

  /// Writes the detail file while the stall lasts, with what is known by then; its end writes it anew.
  ///
  /// It needs a state directory (``StallMonitorConfiguration/stateDirectory``).
  ///
  /// - Parameter after: From zero, which is as soon as the stall is known, to 1 h.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func writeDetailFile(after: Duration) -> StallAction {
    StallAction(after: after, deed: .writeDetailFile)
  }

  /// Ends the process with SIGABRT, and so with a core dump where the system makes them.
  ///
  /// Before that a `stall.ongoing` is written that says so; up to a second is waited for a reader that is slow to take it. The
  /// signal goes to the stalled thread, so that debuggers show that one first. The host's own handler for SIGABRT is not called: one that comes back
  /// would let the loop go on. The process ends also if the signal is ignored or blocked.
  ///
  /// - Parameter after: From the threshold to 1 h.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func abort(after: Duration) -> StallAction { StallAction(after: after, deed: .abort) }
}
