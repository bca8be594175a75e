import CLinux
import PlatformLibc
import StallDetection
import Synchronization

/// Foundation's run loop of the main thread, if the process ever makes it.
///
/// The monitor does not make it: it has three descriptors. ``look()`` finds it, first when the watch begins and then on the
/// courier, at the watchdog's request, as long as nothing else serves the main thread.
final class FoundationMainLoop: RunLoopSearch {
  private enum State {
    case sought
    case found(FoundationPulseObserver.Attachment, UnseenTurn?)
    case ended
  }

  /// The turn that the loop was in when it was found: its end is observed, its beginning was not.
  private struct UnseenTurn: @unchecked Sendable {  // The main thread's run loop lives as long as the process.
    var loop: UnsafeMutableRawPointer
    var word: TurnWord

    /// The same while it lasts.
    ///
    /// Between its last observer and its wait, the loop is not known to rest: it is asked before each check.
    func ifUnderWay(in stamper: TurnStamper) -> Self? {
      guard stamper.isUnseen(word) else { return nil }
      if clinux_cf_is_turning(loop) { return self }
      stamper.endUnseenTurn(word)
      return nil
    }
  }

  private let registry: LoopRegistry
  private let stamper: TurnStamper
  private let state: Mutex<State>

  init(registry: LoopRegistry, stamper: TurnStamper) {
    self.registry = registry
    self.stamper = stamper
    state = Mutex(clinux_cf_is_here() ? .sought : .ended)
  }

  var isSought: Bool { state.withLock { if case .sought = $0 { true } else { false } } }

  var hasAppeared: Bool { isSought && clinux_cf_main_run_loop() != nil }

  func look() {
    state.withLock { state in
      guard case .sought = state else { return }
      clinux_cf_lock()
      defer { clinux_cf_unlock() }
      guard let loop = clinux_cf_main_run_loop() else { return }
      registry.addMain(.coreFoundation(UInt(bitPattern: loop)))
      guard let attachment = FoundationPulseObserver.attach(stamper, toMain: loop) else {
        state = .ended
        return
      }
      // After the observers are there: what they see from now on replaces the turn.
      let word = clinux_cf_is_running(loop) ? stamper.beginUnseenTurn(.foundation) : nil
      state = .found(attachment, word.map { UnseenTurn(loop: loop, word: $0) }?.ifUnderWay(in: stamper))
    }
  }

  func update() {
    state.withLock { state in
      guard case .found(let attachment, let turn?) = state else { return }
      clinux_cf_lock()
      defer { clinux_cf_unlock() }
      state = .found(attachment, turn.ifUnderWay(in: stamper))
    }
  }

  func giveUpSearch() {
    state.withLock { if case .sought = $0 { $0 = .ended } }
  }

  /// Ends the watch.
  func end() {
    let ended = state.withLock { state in
      defer { state = .ended }
      return state
    }
    if case .found(let attachment, _) = ended { attachment.end() }
  }
}
