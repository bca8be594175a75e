import CLinux
import PlatformLibc
import Synchronization

/// The epoll instance of one mode: in a mode only that mode's descriptors can wake the loop.
///
/// With a source's token the kernel is given the instance's tag: an instance that has come to our number, because the program has
/// closed all descriptors, is detected by its answers.
struct Poller: ~Copyable {
  /// Tokens below this are the loop's own; no source has so low an address.
  static var firstSourceToken: UInt64 { 16 }
  static var wakeToken: UInt64 { 1 }
  static var timerToken: UInt64 { 2 }
  static var mainQueueToken: UInt64 { 3 }

  /// Where a token has the tag, and a source's token nothing.
  static var tagBits: UInt64 { 0xFF << 56 }
  private static let tags = Atomic<UInt64>(0)

  private(set) var epoll: Int32 = -1
  /// Another one for each instance that is open at a time (of 255), never 0.
  private(set) var tag: UInt64 = 0
  private var lastTag: UInt64 = 0
  /// Whose a descriptor number is, a source's or the loop's own: the number may be closed and come back as another file.
  private var owners: [Int32: UInt64] = [:]
  /// Watches of an instance that was closed, for the next one.
  private var lapsed: [Int32: UInt64] = [:]

  /// Whether the kernel may still report a source that has been removed: its descriptor was closed before, and another
  /// one keeps the file open.
  private(set) var mayHoldOrphans = false

  deinit {
    if epoll >= 0 { PlatformLibc.close(epoll) }
  }

  @inline(__always)
  var isOpen: Bool { epoll >= 0 }

  /// Makes the instance, with another tag than its last one.
  ///
  /// - Parameter isTagged: False for one that is never waited for.
  /// - Throws: ``LoopError`` when there is no descriptor left.
  mutating func open(isTagged: Bool = true) throws(LoopError) {
    guard epoll < 0 else { return }
    let descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    if descriptor < 0 { throw LoopError("make an epoll instance") }
    epoll = descriptor
    guard isTagged else { return }
    repeat { tag = (Self.tags.wrappingAdd(1, ordering: .relaxed).newValue % 255 + 1) << 56 } while tag == lastTag
    lastTag = tag
  }

  mutating func close() {
    if epoll >= 0 { PlatformLibc.close(epoll) }
    abandon()
  }

  /// In the child of a fork.
  mutating func closeInherited() {
    LoopDescriptorKind.epoll.closeInherited(epoll)
    abandon()
  }

  /// Whether there were watches in an instance that is no more.
  var hasLapsed: Bool { !lapsed.isEmpty }

  /// Forgets an instance whose descriptor other code has closed.
  mutating func abandon() {
    epoll = -1
    tag = 0
    lapsed.merge(owners.filter { $0.value >= Self.firstSourceToken }) { _, later in later }
    owners = [:]
    mayHoldOrphans = false
  }

  /// Returns, once, the watches of the instance that was closed.
  ///
  /// Only the watches of sources. A number that has passed from one source to another is listed
  /// for the last one. A number that has passed to the loop itself is not listed.
  mutating func takeLapsed() -> [Int32: UInt64] {
    defer { lapsed = [:] }
    return lapsed
  }

  /// Watches one of the loop's own descriptors for edges, so that they need never be read.
  mutating func watchEdges(of descriptor: Int32, token: UInt64) throws(LoopError) {
    guard epoll >= 0, descriptor >= 0 else { return }
    let events = EPOLLIN.rawValue | clinux_epoll_edge_triggered()
    if clinux_epoll_control(epoll, EPOLL_CTL_ADD, descriptor, events, token) != 0 && errno != EEXIST {
      throw LoopError("watch descriptor \(descriptor)", descriptor: descriptor)
    }
    note(token, asOwnerOf: descriptor)
  }

  mutating func add(_ descriptor: Int32, events: UInt32, token: UInt64) throws(LoopError) {
    if clinux_epoll_control(epoll, EPOLL_CTL_ADD, descriptor, events, token | tag) != 0 {
      // Left behind by a source that ended while the descriptor was closed, and a duplicate has brought back the same
      // file under the same number.
      let isOrphan = errno == EEXIST && owners[descriptor] == nil
      if !isOrphan || clinux_epoll_control(epoll, EPOLL_CTL_MOD, descriptor, events, token | tag) != 0 {
        throw LoopError("watch descriptor \(descriptor)", descriptor: descriptor)
      }
    }
    note(token, asOwnerOf: descriptor)
  }

  private mutating func note(_ token: UInt64, asOwnerOf descriptor: Int32) {
    // Another source's file had the number, and may be reported still.
    if let other = owners.updateValue(token, forKey: descriptor), other != token, other >= Self.firstSourceToken {
      mayHoldOrphans = true
    }
  }

  func modify(_ descriptor: Int32, events: UInt32, token: UInt64) throws(LoopError) {
    guard epoll >= 0 else { return }
    let operation = "change the watch of descriptor \(descriptor)"
    guard owners[descriptor] == token else {
      throw LoopError(operation, descriptor: descriptor, errorNumber: EBADF)
    }
    if clinux_epoll_control(epoll, EPOLL_CTL_MOD, descriptor, events, token | tag) != 0 {
      throw LoopError(operation, descriptor: descriptor)
    }
  }

  /// Ends a watch.
  ///
  /// A descriptor that was closed meanwhile is no error; one whose number now belongs to another source is left alone.
  mutating func remove(_ descriptor: Int32, token: UInt64) {
    if lapsed[descriptor] == token { lapsed[descriptor] = nil }
    guard epoll >= 0 else { return }
    guard owners[descriptor] == token else { return }
    owners[descriptor] = nil
    if clinux_epoll_control(epoll, EPOLL_CTL_DEL, descriptor, 0, 0) != 0 { mayHoldOrphans = true }
  }
}
