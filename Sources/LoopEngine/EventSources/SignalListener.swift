/// What makes several sources of one signal possible: the kernel gives a pending signal to a single reader, in whatever
/// loop, which hands it on to all others of this process.
final class SignalListener: @unchecked Sendable {
  // @unchecked: `source` is written once, before the object is in the registry; the rest is constant or has a lock.

  private struct Reference {
    weak var listener: SignalListener?
  }

  private static let registry = Guarded<[ObjectIdentifier: Reference]>.table([:])

  private let signals: Set<Int32>
  private let body: (Loop.SignalSource.Delivery) -> Void
  private let handedOn = Guarded<[Loop.SignalSource.Delivery]>([])
  private weak var source: Loop.DescriptorSource?

  init(_ signals: [Int32], body: @escaping (Loop.SignalSource.Delivery) -> Void) {
    self.signals = Set(signals)
    self.body = body
  }

  deinit {
    let identity = ObjectIdentifier(self)
    Self.registry.withLock { $0[identity] = nil }
  }

  func register(source: Loop.DescriptorSource) {
    self.source = source
    Self.registry.withLock { $0[ObjectIdentifier(self)] = Reference(listener: self) }
  }

  /// Serves a delivery that this source has read.
  func take(_ delivery: Loop.SignalSource.Delivery) {
    // Retained under the lock and used outside of it: an end takes the lock, too.
    let others = Self.registry.withLock { $0.values.compactMap(\.listener) }
    for other in others where other !== self && other.signals.contains(delivery.signal) { other.receive(delivery) }
    body(delivery)
  }

  /// Serves a delivery that another source has read: on the own loop, in the own modes, as a source's work.
  private func receive(_ delivery: Loop.SignalSource.Delivery) {
    guard let source, source.isValid, let loop = source.binding.loop else { return }
    let isFirst = handedOn.withLock { waiting in
      waiting.append(delivery)
      return waiting.count == 1
    }
    guard isFirst else { return }
    loop.change { [self] in
      // In no mode now: it has missed this, and hears of the next.
      if source.keys.isEmpty { return handedOn.withLock { $0 = [] } }
      let messenger = Messenger()
      let carrier = Loop.Source(for: source.callSite.pointee) { [self] in
        messenger.source?.invalidate()
        for delivery in handedOn.withLock({ waiting in
          defer { waiting = [] }
          return waiting
        }) where source.isValid { body(delivery) }
      }
      messenger.source = carrier
      for key in source.keys.added { loop.add(carrier, to: Loop.Mode(id: key)) }
      carrier.signal()
      // A signal alone does not end a sleep that is about to begin.
      loop.wakeUp()
    }
  }

  /// Lets a source's closure end the source.
  private final class Messenger: @unchecked Sendable {
    // @unchecked: used on one loop's thread.
    weak var source: Loop.Source?
  }
}
