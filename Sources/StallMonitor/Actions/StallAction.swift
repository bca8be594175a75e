/// An action that the monitor runs when a stall has lasted for a given time.
///
/// Each action runs at most once per stall, whether the stall is reported or counted as a
/// repetition. It runs after the stall's lines have been passed to the output.
public struct StallAction: Sendable, Equatable {
  enum Kind: Sendable, Equatable {
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
  let kind: Kind

  /// Calls a closure of the service's.
  ///
  /// It runs on a thread that exists for such closures and calls them one at a time, in the order
  /// in which they are due. It holds no lock of the monitor's, and may call the monitor's methods.
  /// That thread blocks signals, except SIGPIPE, SIGPROF and those of a crash. A crash in the closure
  /// is the process's crash. At most 256 calls wait; further ones are dropped.
  ///
  /// - Important: A closure must not wait for the loop, which is blocked. The stall may have ended before the closure runs. If it had
  ///   already ended when the action became due, ``StallNotice/event`` is ``StallNotice/Event/ended``.
  ///
  /// - Parameters:
  ///   - after: From zero, which is as soon as the stall is known, to 1 h.
  ///   - body: What to call.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func call(
    after: Duration = .zero, _ body: @escaping @Sendable (StallNotice) -> Void
  ) -> StallAction { StallAction(after: after, kind: .call(Handler(body))) }

  /// Writes the detail file during the stall.
  ///
  /// The monitor writes it again when the stall ends.
  ///
  /// With the agent as the sink, the agent writes the file. Otherwise the output thread writes it, so it may appear after closures of the
  /// same time have been called. It then needs a state directory (``StallMonitorConfiguration/stateDirectory``).
  ///
  /// - Parameter after: From zero, which is as soon as the stall is known, to 1 h.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func writeDetailFile(after: Duration) -> StallAction {
    StallAction(after: after, kind: .writeDetailFile)
  }

  /// Ends the process with SIGABRT, and with a core dump if the system is configured for it.
  ///
  /// A stall of one task (`task-pool`) never ends the process. A stall of the whole task pool does
  /// (`cooperative-pool`: tasks wait, and no thread takes one).
  ///
  /// First the monitor writes a `stall.ongoing` with a message about the abort, and waits up to
  /// a second for a slow reader. The signal goes to the stalled thread, so that debuggers show that
  /// one first. The service's own handler for SIGABRT is not called: a handler that returns would let
  /// the process continue. The process also ends if the signal is ignored or blocked.
  ///
  /// - Parameter after: From the threshold to 1 h.
  /// - Returns: The action, for ``StallMonitorConfiguration/actions``.
  public static func abort(after: Duration) -> StallAction { StallAction(after: after, kind: .abort) }
}
