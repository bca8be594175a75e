import CLinux

/// What a loop needs to call each of its descriptor sources: what the kernel hands back with an event leads here.
///
/// Of ten thousand descriptors, what is kept for one is in no cache when its event comes. An entry is half a cache line,
/// and a call touches nothing else: the source itself is an object somewhere in the heap.
///
/// A token is the address of an entry and a number that tells apart the sources which had it. As long as no source has
/// left or changed since the kernel was asked, the address can be trusted. Otherwise it is looked up, and an event that
/// outlives its source finds nothing and not somebody else.
struct DescriptorTable: ~Copyable {
  typealias Reference = UnsafeMutablePointer<DescriptorEntry>

  /// Entries stay where they are, and are freed with the loop.
  private var blocks: [Reference] = []
  private var vacant: [Reference] = []
  /// The calls that the runs around the innermost one are making.
  private var suspended: [clinux_loop_callee_t] = []
  /// Entries whose sources have left while they are being called.
  private var kept: [Reference] = []
  private var generation: UInt64 = 0
  /// How often a source has left, left a mode or changed its interest, so that a pass can tell whether it may trust what
  /// the kernel said.
  private(set) var changes = 0

  private static var blockCapacity: Int { 128 }
  // Addresses of user space have 47 bits on x86_64 and 48 on arm64.
  private static var addressBits: UInt64 { 48 }

  deinit {
    for block in blocks {
      block.deinitialize(count: Self.blockCapacity)
      UnsafeMutableRawPointer(block).deallocate()
    }
  }

  var all: [Loop.DescriptorSource] {
    var sources: [Loop.DescriptorSource] = []
    for block in blocks {
      for index in 0..<Self.blockCapacity {
        guard let source = block[index].source, find(source.token)?.entry == block + index else { continue }
        sources.append(source)
      }
    }
    return sources
  }

  mutating func insert(_ source: Loop.DescriptorSource) {
    if vacant.isEmpty { addBlock() }
    let entry = vacant.removeLast()
    entry.pointee.occupy(source)
    generation &+= 1
    source.token = UInt64(UInt(bitPattern: entry)) | (generation << Self.addressBits) & ~Poller.tagBits
  }

  mutating func remove(_ source: Loop.DescriptorSource) {
    guard source.token != 0 else { return }
    let entry = Self.entry(of: source.token)
    source.token = 0
    changes &+= 1
    if isCalled(entry) {
      kept.append(entry)
    } else {
      vacant.append(entry)
      // The caller has it, too: nothing ends here.
      _ = entry.pointee.vacate()
    }
  }

  mutating func noteChange() {
    changes &+= 1
  }

  mutating func removeAll() {
    // The thread ends; if in the middle of a call, that won't return.
    clinux_loop_set_callee(clinux_loop_callee_t())
    (suspended, kept) = ([], [])
    for source in all {
      source.keys = []
      remove(source)
    }
  }

  /// The entry of a token, if its source is still here.
  func find(_ token: UInt64) -> (entry: Reference, source: Loop.DescriptorSource)? {
    guard token != 0 else { return nil }
    let entry = Self.entry(of: token)
    guard let source = entry.pointee.source, source.token == token else { return nil }
    return (entry, source)
  }

  /// The entry of a token that is known to be here.
  @inline(__always)
  static func entry(of token: UInt64) -> Reference {
    Reference(bitPattern: UInt(token & (1 << addressBits - 1)))!
  }

  /// Fetches the entry of a token from memory; any token may be given.
  @inline(__always)
  static func prefetch(_ token: UInt64) {
    clinux_prefetch_for_reading(UnsafeRawPointer(bitPattern: UInt(token & (1 << addressBits - 1))))
  }

  private mutating func addBlock() {
    // Half a cache line each, and none of them in two.
    let memory = UnsafeMutableRawPointer.allocate(
      byteCount: Self.blockCapacity * MemoryLayout<DescriptorEntry>.stride, alignment: 64)
    let block = memory.bindMemory(to: DescriptorEntry.self, capacity: Self.blockCapacity)
    for index in 0..<Self.blockCapacity { (block + index).initialize(to: DescriptorEntry()) }
    blocks.append(block)
    vacant = (0..<Self.blockCapacity).reversed().map { block + $0 }
  }

  // MARK: Calls

  /// An entry's source is being called: both live on until the call has returned, also if the source leaves meanwhile.
  ///
  /// Nothing is counted in the source itself, or written to its entry: what is written has to be carried back to memory.
  @inline(__always)
  func callBegins(_ entry: Reference) { clinux_loop_set_callee(entry.pointee.callee) }

  @inline(__always)
  mutating func callEnds() {
    clinux_loop_set_callee(clinux_loop_callee_t())
    if !kept.isEmpty { letGo() }
  }

  /// A nested run begins; the outer one's call goes on when it ends.
  mutating func suspendCall() {
    suspended.append(clinux_loop_get_callee())
    clinux_loop_set_callee(clinux_loop_callee_t())
  }

  /// A nested run has ended.
  mutating func resumeCall() { clinux_loop_set_callee(suspended.removeLast()) }

  private func isCalled(_ entry: Reference) -> Bool {
    let source = entry.pointee.callee.source
    return clinux_loop_get_callee().source == source || suspended.contains { $0.source == source }
  }

  @inline(never)
  private mutating func letGo() {
    let before = kept
    kept = before.filter { isCalled($0) }
    let leaving = before.filter { !isCalled($0) }
    vacant += leaving
    let sources = leaving.map { $0.pointee.vacate() }
    // Last: what a closure held may come back to this table.
    withExtendedLifetime(sources) {}
  }
}

/// A descriptor source, as the loop calls it: 32 bytes.
struct DescriptorEntry: ~Copyable {
  typealias Body = @Sendable (Loop.DescriptorSource, Loop.DescriptorSource.Readiness) -> Void

  private var body: Body = { _, _ in }
  /// Two addresses, each with half of the descriptor above it.
  private var sourceAndLowHalf: UInt64 = 0
  private var placeAndHighHalf: UInt64 = 0

  private static var addressBits: UInt64 { 48 }
  private static var addressMask: UInt64 { 1 << addressBits - 1 }

  mutating func occupy(_ source: Loop.DescriptorSource) {
    let descriptor = UInt64(UInt32(bitPattern: source.descriptor))
    body = source.body
    sourceAndLowHalf =
      UInt64(UInt(bitPattern: Unmanaged.passRetained(source).toOpaque())) | descriptor << Self.addressBits
    placeAndHighHalf =
      UInt64(UInt(bitPattern: source.place)) | (descriptor >> 16) << Self.addressBits
  }

  /// Gives back the source, which holds the closure as well.
  mutating func vacate() -> Loop.DescriptorSource? {
    defer {
      body = { _, _ in }
      sourceAndLowHalf = 0
      placeAndHighHalf = 0
    }
    return reference?.takeRetainedValue()
  }

  var source: Loop.DescriptorSource? { reference?.takeUnretainedValue() }

  @inline(__always)
  private var reference: Unmanaged<Loop.DescriptorSource>? {
    UnsafeRawPointer(bitPattern: UInt(sourceAndLowHalf & Self.addressMask)).map { Unmanaged.fromOpaque($0) }
  }

  @inline(__always)
  var origin: Origin {
    UnsafePointer<Origin>(bitPattern: UInt(placeAndHighHalf & Self.addressMask))!.pointee
  }

  /// What the source finds out about itself during its call.
  @inline(__always)
  var callee: clinux_loop_callee_t {
    let descriptor = sourceAndLowHalf >> Self.addressBits | (placeAndHighHalf >> Self.addressBits) << 16
    return clinux_loop_callee_t(
      source: UnsafeRawPointer(bitPattern: UInt(sourceAndLowHalf & Self.addressMask)),
      descriptor: Int32(truncatingIfNeeded: descriptor))
  }

  /// Calls the source; no reference is counted.
  @inline(__always)
  func call(_ readiness: Loop.DescriptorSource.Readiness) {
    reference!._withUnsafeGuaranteedRef { body($0, readiness) }
  }
}
