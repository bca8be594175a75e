import CLinux
import PlatformLibc
import Synchronization

extension Loop {
  /// Watches a file descriptor, as CoreFoundation's sources of version 1 watch a port.
  ///
  /// Level-triggered: the closure is called in each pass in which the descriptor is ready, in turn if more than 64 are. The source never reads,
  /// writes or closes the descriptor; invalidate it before you close. Within a mode a descriptor can be watched by one
  /// source at a time. A source belongs to one loop.
  /// All members may be used on any thread; the closure is called on the loop's.
  ///
  /// ``SignalSource``, ``ChildSource``, ``FileChangeSource`` and ``CounterSource`` are ready-made ones, each with a
  /// descriptor of its own, which is closed when the last reference to the source goes.
  public class DescriptorSource: @unchecked Sendable {
    // @unchecked: what is not atomic or constant is touched by the loop's thread alone.

    /// What a descriptor can be ready for.
    public struct Readiness: OptionSet, Hashable, Sendable {
      /// The bits.
      public let rawValue: UInt32

      /// Makes a set of its bits.
      public init(rawValue: UInt32) {
        self.rawValue = rawValue
      }

      /// There is something to read, or the end of it, or an error that a read would give.
      public static var readable: Readiness { Readiness(rawValue: 1) }
      /// There is space to write, or an error that a write would give.
      public static var writable: Readiness { Readiness(rawValue: 2) }
      /// The other side has closed, or shut down its writing half.
      public static var hangUp: Readiness { Readiness(rawValue: 4) }
      /// An error is pending.
      ///
      /// Reported whether asked for or not.
      public static var error: Readiness { Readiness(rawValue: 8) }
      /// Exceptional data, such as a priority event of a file in `/proc` or `/sys`.
      public static var priority: Readiness { Readiness(rawValue: 16) }
    }

    // What a call needs is in the loop's table as well, see there.
    final let body: DescriptorEntry.Body
    final let callSite: UnsafePointer<CallSite>
    private final let number: Int32
    /// The bits of the interest, and ``hasEnded``.
    private final let state: Atomic<UInt32>
    final let binding = LoopBinding()
    /// What and why, as numbers: objects of their own would double what each of ten thousand sources takes of the
    /// cache.
    private final let failure = Atomic<Int32>(0)
    @exclusivity(unchecked) final var keys = ModeKeys()
    /// What the kernel is given for this source (see ``DescriptorTable``), 0 while it is not registered.
    @exclusivity(unchecked) final var token: UInt64 = 0

    /// Makes a source; it watches once it is added to a loop.
    ///
    /// - Parameters:
    ///   - descriptor: The descriptor, which stays the caller's.
    ///   - interests: What to watch for; errors and a full hang-up are always reported.
    ///   - repeats: False for a source that is called once: it is invalid when its closure is called. The closure may
    ///     therefore close the descriptor, or watch it again.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called on the loop's thread with the source and what the descriptor is ready for.
    public init(
      _ descriptor: Int32, for interests: Readiness = .readable, repeats: Bool = true, name: StaticString? = nil,
      file: StaticString = #fileID, line: UInt32 = #line,
      body: sending @escaping (DescriptorSource, Readiness) -> Void
    ) {
      number = descriptor
      if repeats {
        self.body = body
      } else {
        // First, so that a run within the closure does not call it again.
        self.body = { source, readiness in
          source.invalidate()
          body(source, readiness)
        }
      }
      state = Atomic(interests.rawValue & Self.knownInterests)
      callSite = CallSites.pointer(to: CallSite(file, line, name))
    }

    deinit { CallSites.release(callSite) }

    private static var hasEnded: UInt32 { 1 << 31 }
    private static var knownInterests: UInt32 { 31 }

    /// The watched descriptor.
    public final var descriptor: Int32 {
      // In its own call it is at hand, and the source need not be fetched from memory.
      let callee = clinux_loop_get_callee()
      return callee.source == UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()) ? callee.descriptor : number
    }

    /// Whether the source can still be called.
    public final var isValid: Bool { state.load(ordering: .sequentiallyConsistent) & Self.hasEnded == 0 }

    /// What to watch for.
    ///
    /// Setting it changes the watch, at once on the loop's thread and soon from any other.
    public final var interest: Readiness {
      get { Readiness(rawValue: state.load(ordering: .sequentiallyConsistent) & Self.knownInterests) }
      set {
        let wanted = newValue.rawValue & Self.knownInterests
        binding.changing {
          var present = state.load(ordering: .acquiring)
          while present & Self.knownInterests != wanted {
            let (exchanged, original) = state.weakCompareExchange(
              expected: present, desired: present & Self.hasEnded | wanted, ordering: .sequentiallyConsistent)
            if exchanged {
              let taken = present & ~wanted & Self.knownInterests
              binding.loop?.descriptorInterestDidChange(self, isLess: taken != 0)
              return
            }
            present = original
          }
        }
      }
    }

    /// Why the kernel refused the watch, if `add` and `watch` could not throw that; such a source is invalid.
    public final var error: LoopError? {
      let number = failure.load(ordering: .acquiring)
      return number == 0
        ? nil : LoopError("watch descriptor \(descriptor)", descriptor: descriptor, errorNumber: number)
    }

    /// Stops watching for good.
    ///
    /// The descriptor stays open. If this is not called on the loop's thread, a call of the closure
    /// may be in progress, and ends later.
    public final func invalidate() {
      binding.changing {
        let before = state.bitwiseOr(Self.hasEnded, ordering: .sequentiallyConsistent).oldValue
        if before & Self.hasEnded == 0 { binding.loop?.descriptorSourceDidBecomeInvalid(self) }
      }
    }

    final func fail(_ error: LoopError) {
      failure.store(error.errorNumber, ordering: .releasing)
      invalidate()
    }

    /// What the kernel's bits mean to this source now; the interest may have changed since they were written, or the source
    /// have ended.
    ///
    /// After a hang-up or an error neither reading nor writing blocks, which epoll does not say by itself (a pipe's end
    /// is a hang-up and nothing else), and a closure that looks for what it asked for would be called for ever.
    @inline(__always)
    final func readiness(for events: UInt32) -> Readiness {
      let interest = state.load(ordering: .acquiring)
      if interest & Self.hasEnded != 0 { return [] }
      let all = Readiness(epollEvents: events).rawValue
      if !Readiness.dependsOnInterest(events) { return Readiness(rawValue: all & interest) }
      return Readiness(rawValue: all & (interest | 12) | interest & 3)
    }

    /// The kernel's bits for what the descriptor is ready for now; none if it is closed.
    @inline(never)
    final var currentEpollEvents: UInt32 {
      // poll(2) and epoll have the same bits.
      var request = pollfd(fd: number, events: Int16(truncatingIfNeeded: epollEvents), revents: 0)
      guard poll(&request, 1, 0) > 0, request.revents & Int16(POLLNVAL) == 0 else { return 0 }
      return UInt32(UInt16(bitPattern: request.revents))
    }

    /// The kernel's bits for the interest.
    final var epollEvents: UInt32 {
      let interest = interest
      var events: UInt32 = 0
      if interest.contains(.readable) { events |= EPOLLIN.rawValue }
      if interest.contains(.writable) { events |= EPOLLOUT.rawValue }
      if interest.contains(.hangUp) { events |= EPOLLRDHUP.rawValue }
      if interest.contains(.priority) { events |= EPOLLPRI.rawValue }
      return events
    }
  }
}

extension Loop.DescriptorSource.Readiness: CustomStringConvertible {
  /// The bits in words, as `[.readable, .hangUp]`.
  public var description: String {
    words([
      ("readable", .readable), ("writable", .writable), ("hangUp", .hangUp), ("error", .error), ("priority", .priority),
    ])
  }
}

extension Loop.DescriptorSource.Readiness {
  /// What the kernel's bits mean.
  @inline(__always)
  init(epollEvents events: UInt32) {
    var bits: UInt32 = 0
    if events & EPOLLIN.rawValue != 0 { bits |= 1 }
    if events & EPOLLOUT.rawValue != 0 { bits |= 2 }
    if events & (EPOLLRDHUP.rawValue | EPOLLHUP.rawValue) != 0 { bits |= 4 }
    if events & EPOLLERR.rawValue != 0 { bits |= 8 }
    if events & EPOLLPRI.rawValue != 0 { bits |= 16 }
    self.init(rawValue: bits)
  }

  /// Whether the kernel may have said more than it was asked, so that the interest decides what its bits mean.
  @inline(__always)
  static func dependsOnInterest(_ events: UInt32) -> Bool { events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 }
}
