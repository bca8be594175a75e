import CLinux
import Glibc
import Synchronization

/// Foundation's run loop of the main thread, if the process ever makes it.
///
/// The monitor does not make it: it has three descriptors. ``look()`` finds it, first when the watch begins and then from the
/// watchdog, as long as nothing else serves the main thread.
final class FoundationMainLoop: RunLoopSearch {
  private enum State {
    case sought
    case found(FoundationPulseObserver.Attachment)
    case ended
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

  func look() {
    state.withLock { state in
      guard case .sought = state, let loop = clinux_cf_main_run_loop() else { return }
      registry.addMain(.coreFoundation(UInt(bitPattern: loop)))
      state = FoundationPulseObserver.attach(stamper, toMain: loop).map { .found($0) } ?? .ended
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
    if case .found(let attachment) = ended { attachment.end() }
  }
}
