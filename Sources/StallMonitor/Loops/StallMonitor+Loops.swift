import CLinux
import StallDetection
import StallReport
import TurnSource

extension StallMonitor {
  /// Watches a loop of any thread.
  ///
  /// The watch counts from the call: a turn that is in progress is timed from then on. Before and after its runs, a loop is in no turn. The
  /// watch ends by itself with the loop's thread. A run of
  /// Foundation's run loop inside one of the loop's callouts is not reported as a stall.
  ///
  /// The cost per turn is that of the main loop. Where perf events are not permitted, the loop's
  /// thread gets an alternate signal stack if it has none, and keeps it until it exits. ``pause()``
  /// holds for all loops of the monitor.
  ///
  /// - Parameters:
  ///   - loop: The loop, such as LoopEngine's `Loop`.
  ///   - name: Its name in reports: 1 to 64 bytes without control characters. No two loops have the same one; the main loop has `main`.
  ///   - threshold: How long a turn may take before it is a stall, from 1 ms to 1 h; the default is the configuration's.
  /// - Returns: A handle that ends the watch. It need not be kept. It does nothing if the monitor does not watch.
  /// - Throws: ``StallMonitorError`` if a value is invalid, the name is taken, the loop is watched already, or its thread has ended.
  @discardableResult
  public func watch(
    _ loop: any WatchableLoop, name: String, threshold: Duration? = nil
  ) throws(StallMonitorError) -> LoopWatch {
    let source = loop.turnSource.source
    return try register(name: name, threshold: threshold, identity: .loop(ObjectIdentifier(source))) {
      registered throws(StallMonitorError) in
      if source.isCurrent {
        registered.prepareThread()
      } else {
        let expected = ExpectedThread(registered)
        let isTaken = source.performInTurn {
          registered.prepareThread()
          withExtendedLifetime(expected) {}
        }
        guard isTaken else { throw StallMonitorError(.loopHasEnded(name: name)) }
      }
      let stamper = TurnStamper(pulse: registered.publication.pulse)
      let traits = RegisteredLoop.Traits(
        kind: { stamper.kind.loopKind }, state: { source.turnStatus },
        knownRuns: { stamper.expectedFoundationRuns }, loop: source)
      let thread = WatchedLoop.Subject.Thread(id: source.threadID, stackEnd: source.stackEnd)
      registered.begin(traits, on: thread) {
        let stamping = LoopStamping(of: source, by: stamper)
        return { stamping.end() }
      }
    }
  }

  /// Has a loop watched, if the monitor watches: `begin` begins it on the loop's thread.
  private func register(
    name: String, threshold: Duration?, identity: LoopRegistry.Identity,
    begin: (RegisteredLoop) throws(StallMonitorError) -> Void
  ) throws(StallMonitorError) -> LoopWatch {
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
    guard let loop = try registry?.register(name: name, threshold: threshold, identity: identity) else {
      return LoopWatch(unwatched: name, threshold: threshold ?? configuration.threshold)
    }
    try begin(loop)
    return LoopWatch(loop)
  }

  /// Watches a `CFRunLoop` of any thread.
  ///
  /// The rules are those of ``watch(_:name:threshold:)``. The monitor sees the common modes of the
  /// run loop. For the calling thread's own there is
  /// ``watchCurrentCoreFoundationRunLoop(name:threshold:)``.
  ///
  /// - Parameters:
  ///   - runLoop: A `CFRunLoop`, such as `CFRunLoopGetCurrent()` returned on the loop's thread.
  ///   - name: Its name in reports.
  ///   - threshold: How long a turn may take before it is a stall; the default is the configuration's.
  /// - Returns: A handle that ends the watch. It need not be kept. It does nothing if the monitor does not watch.
  /// - Throws: ``StallMonitorError`` as ``watch(_:name:threshold:)``, if the process has no
  ///   CoreFoundation, and if the object is no `CFRunLoop`.
  @discardableResult
  public func watch(
    coreFoundationRunLoop runLoop: AnyObject, name: String, threshold: Duration? = nil
  ) throws(StallMonitorError) -> LoopWatch {
    guard clinux_cf_is_here() else { throw StallMonitorError(.noCoreFoundation) }
    guard FoundationPulseObserver.isRunLoop(runLoop) else {
      throw StallMonitorError(
        .invalidLoop(
          key: "class", value: "\(type(of: runLoop))", allowed: "a CFRunLoop, such as CFRunLoopGetCurrent()"))
    }
    return try withExtendedLifetime(runLoop) { () throws(StallMonitorError) in
      try watch(runLoop: Unmanaged.passUnretained(runLoop).toOpaque(), name: name, threshold: threshold)
    }
  }

  /// Watches the calling thread's Foundation run loop.
  ///
  /// - Parameters:
  ///   - name: Its name in reports.
  ///   - threshold: How long a turn may take before it is a stall; the default is the
  ///     configuration's.
  /// - Returns: A handle that ends the watch. It need not be kept. It does nothing if the monitor does not watch.
  /// - Throws: ``StallMonitorError`` as ``watch(_:name:threshold:)``, and if the process has no
  ///   CoreFoundation.
  @discardableResult
  public func watchCurrentCoreFoundationRunLoop(
    name: String, threshold: Duration? = nil
  ) throws(StallMonitorError) -> LoopWatch {
    guard clinux_cf_is_here(), let runLoop = clinux_cf_current_run_loop() else {
      throw StallMonitorError(.noCoreFoundation)
    }
    return try watch(runLoop: runLoop, name: name, threshold: threshold)
  }

  /// Watches a `CFRunLoop`, which lives until the call returns.
  private func watch(
    runLoop: UnsafeMutableRawPointer, name: String, threshold: Duration?
  ) throws(StallMonitorError) -> LoopWatch {
    lookForMainRunLoop()
    return try register(
      name: name, threshold: threshold, identity: .coreFoundation(UInt(bitPattern: runLoop))
    ) { registered throws(StallMonitorError) in
      let begin = { @Sendable in
        let stamper = TurnStamper(pulse: registered.publication.pulse, kind: .foundation)
        let traits = RegisteredLoop.Traits(
          kind: { stamper.kind.loopKind }, knownRuns: { stamper.expectedFoundationRuns })
        registered.begin(traits) {
          guard let attachment = FoundationPulseObserver.attachToCurrent(stamper) else { return nil }
          return { attachment.end() }
        }
      }
      if FoundationPulseObserver.isOwn(runLoop) { return begin() }
      guard FoundationPulseObserver.perform(on: runLoop, expecting: ExpectedThread(registered), begin) else {
        throw StallMonitorError(.loopHasEnded(name: name))
      }
    }
  }

  /// Watches a loop of the calling thread's that says itself when it is busy.
  ///
  /// It starts idle. Nil if the monitor does not watch.
  package func watchOwnLoop(name: String, threshold: Duration?) throws(StallMonitorError) -> OwnLoop? {
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
    guard let loop = try registry?.register(name: name, threshold: threshold) else { return nil }
    loop.begin(RegisteredLoop.Traits(kind: { .ownLoop })) { {} }
    return OwnLoop(loop)
  }
}

/// A loop that says itself when it is busy.
///
/// ``busy()`` and ``idle()`` on the loop's thread only; they take no lock and cost what the pulse costs.
package final class OwnLoop: Sendable {
  private let pulse: Pulse
  private let loop: RegisteredLoop
  private let threadID: Int32

  init(_ loop: RegisteredLoop) {
    pulse = loop.publication.pulse
    self.loop = loop
    threadID = clinux_gettid()
  }

  /// A turn begins.
  package func busy() { pulse.turn(.afterWaiting) }

  /// The turn has ended, and the loop is about to wait.
  package func idle() { pulse.idle() }

  /// Ends the watch; on the loop's thread also the current turn.
  package func end() {
    if clinux_gettid() == threadID { pulse.idle() }
    loop.end()
  }
}
