import CLinux

/// The descriptor sources of a loop by token: what the kernel hands back with an event.
///
/// A token is the source's address and a number that tells apart the sources which lived there. As long as no source has left
/// since the kernel was asked, the address can be trusted, and among ten thousand sources nothing else need be fetched
/// from memory. Otherwise it is looked up, and an event that outlives its source finds nothing and not somebody else.
struct DescriptorTable: ~Copyable {
  private var sources: [UInt: Loop.DescriptorSource] = [:]
  /// The source that the innermost run is calling, and those that the runs around it are.
  private var callee: Unmanaged<Loop.DescriptorSource>?
  private var suspended: [Unmanaged<Loop.DescriptorSource>?] = []
  /// Sources that have left while they are being called.
  private var kept: [Loop.DescriptorSource] = []
  private var generation: UInt64 = 0
  /// How many sources have left, or left a mode, so that a pass can tell whether it may trust its events.
  private(set) var removals = 0

  // Addresses of user space have 47 bits on x86_64 and 48 on arm64.
  private static let addressBits: UInt64 = 48

  var all: [Loop.DescriptorSource] { Array(sources.values) }

  mutating func insert(_ source: Loop.DescriptorSource) {
    let address = UInt(bitPattern: Unmanaged.passUnretained(source).toOpaque())
    generation &+= 1
    sources[address] = source
    source.token = UInt64(address) | (generation << Self.addressBits) & ~Poller.tagBits
  }

  mutating func remove(_ source: Loop.DescriptorSource) {
    guard source.token != 0 else { return }
    if isCalled(source) { kept.append(source) }
    sources[Self.address(of: source.token)] = nil
    source.token = 0
    removals &+= 1
  }

  mutating func noteRemoval() {
    removals &+= 1
  }

  mutating func removeAll() {
    for source in sources.values {
      source.token = 0
      source.keys = []
    }
    sources = [:]
    // The thread ends; if in the middle of a call, that won't return.
    (callee, suspended) = (nil, [])
    let unfinished = kept
    kept = []
    removals &+= 1
    withExtendedLifetime(unfinished) {}
  }

  /// The source of a token, if it is still here.
  func find(_ token: UInt64) -> Loop.DescriptorSource? {
    guard let source = sources[Self.address(of: token)], source.token == token else { return nil }
    return source
  }

  /// The source of a token that is known to be here.
  @inline(__always)
  static func source(of token: UInt64) -> Unmanaged<Loop.DescriptorSource> {
    Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: address(of: token))!)
  }

  /// Fetches what a call of a token's source will need first; any token may be given.
  @inline(__always)
  static func prefetch(_ token: UInt64) {
    clinux_prefetch_for_reading(UnsafeRawPointer(bitPattern: address(of: token) &+ 16))
  }

  // MARK: Calls

  /// A source is being called: it lives on until the call has returned, also if it leaves meanwhile.
  ///
  /// Nothing is counted in the source itself: what is written there has to be written back to memory.
  @inline(__always)
  mutating func callBegins(_ source: Unmanaged<Loop.DescriptorSource>) { callee = source }

  @inline(__always)
  mutating func callEnds() {
    callee = nil
    if !kept.isEmpty { letGo() }
  }

  /// A nested run begins; the outer one's call goes on when it ends.
  mutating func suspendCall() {
    suspended.append(callee)
    callee = nil
  }

  /// A nested run has ended.
  mutating func resumeCall() { callee = suspended.removeLast() }

  private func isCalled(_ source: Loop.DescriptorSource) -> Bool {
    let address = Unmanaged.passUnretained(source).toOpaque()
    return callee?.toOpaque() == address || suspended.contains { $0?.toOpaque() == address }
  }

  @inline(never)
  private mutating func letGo() {
    let before = kept
    kept = before.filter { isCalled($0) }
    // Last: what a closure held may come back to this table.
    withExtendedLifetime(before) {}
  }

  @inline(__always)
  private static func address(of token: UInt64) -> UInt { UInt(token & (1 << addressBits - 1)) }
}
