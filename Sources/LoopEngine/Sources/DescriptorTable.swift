import CLinux
import PlatformLibc

/// What a loop needs to call each of its descriptor sources: what the kernel hands back with an event leads here.
///
/// Of ten thousand descriptors, what is kept for one is in no cache when its event comes. An entry is half a cache line,
/// and a call touches nothing else: the source itself is an object somewhere in the heap.
///
/// A token is the address of an entry and a number of 13 bits that distinguishes the sources that
/// had the entry. As long as no source has left or changed since the kernel was asked, the address
/// can be trusted. Otherwise it is looked up, so an event that outlives its source finds nothing,
/// and no other source.
struct DescriptorTable: ~Copyable {
  typealias Reference = UnsafeMutablePointer<DescriptorEntry>

  /// Entries stay where they are, and are freed with the loop.
  private var blocks: [UnsafeMutableBufferPointer<DescriptorEntry>] = []
  /// How many entries of the last block were ever used; the others are uninitialized.
  private var used = 0
  private var vacant: [Reference] = []
  /// The calls that the runs around the innermost one are making.
  private var suspended: [clinux_loop_callee_t] = []
  /// Entries whose sources have left while they are being called.
  private var kept: [(entry: Reference, generation: UInt64)] = []
  /// How often a source has left, left a mode or changed its interest, so that a pass knows whether
  /// it may trust what the kernel returned.
  private(set) var changes = 0

  // Addresses of user space have 47 bits on x86_64 and 48 on arm64 (layout of x86_64); those of entries end in five zeros. A token has an epoll instance's tag
  // above the address (``Poller``), and a generation in what remains: eight bits above, five below.
  private static var addressBits: UInt64 { ((1 << 48) - 1) & ~31 }

  deinit {
    for entry in entries { entry.deinitialize(count: 1) }
    for block in blocks { UnsafeMutableRawPointer(block.baseAddress!).deallocate() }
  }

  private var entries: [Reference] {
    blocks.enumerated().flatMap { position, block in
      let count = position == blocks.count - 1 ? used : block.count
      return (0..<count).map { block.baseAddress! + $0 }
    }
  }

  var all: [Loop.DescriptorSource] {
    entries.compactMap { entry in
      guard let source = entry.pointee.source, find(source.token)?.entry == entry else { return nil }
      return source
    }
  }

  mutating func insert(_ source: Loop.DescriptorSource) {
    let entry = vacant.popLast() ?? nextEntry()
    let generation = entry.pointee.occupy(source)
    source.token = UInt64(UInt(bitPattern: entry)) | generation & 31 | (generation >> 5 & 255) << 48
  }

  mutating func remove(_ source: Loop.DescriptorSource) {
    guard source.token != 0 else { return }
    let entry = Self.entry(of: source.token)
    let generation = source.token & 31 | (source.token >> 48 & 255) << 5
    source.token = 0
    changes &+= 1
    if isCalled(entry) {
      kept.append((entry, generation))
    } else {
      vacant.append(entry)
      // The caller has it, too: nothing ends here.
      _ = entry.pointee.vacate(after: generation)
    }
  }

  mutating func noteChange() {
    changes &+= 1
  }

  mutating func removeAll() {
    // The thread ends; if in the middle of a call, that won't return.
    clinux_loop_set_callee(clinux_loop_callee_t())
    suspended = []
    for source in all {
      source.keys.removeAll()
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
    Reference(bitPattern: UInt(token & addressBits))!
  }

  /// Fetches the entry of a token from memory; any token may be given.
  @inline(__always)
  static func prefetch(_ token: UInt64) {
    clinux_prefetch_for_reading(UnsafeRawPointer(bitPattern: UInt(token & addressBits)))
  }

  private mutating func nextEntry() -> Reference {
    if used == blocks.last?.count ?? 0 {
      blocks.append(Self.block(after: blocks.reduce(0) { $0 + $1.count }))
      used = 0
    }
    let entry = blocks.last!.baseAddress! + used
    entry.initialize(to: DescriptorEntry())
    used += 1
    return entry
  }

  /// Space for more entries: as much again, and once there are thousands, a huge page.
  ///
  /// Of ten thousand entries each event needs another one, and each needs an address translation as well, which costs more than the
  /// entry where the machine is a virtual one.
  private static func block(after count: Int) -> UnsafeMutableBufferPointer<DescriptorEntry> {
    let hugePage = 2 << 20
    let isHuge = count >= 2048
    let capacity = isHuge ? hugePage / MemoryLayout<DescriptorEntry>.stride : max(64, count)
    let size = capacity * MemoryLayout<DescriptorEntry>.stride
    // Half a cache line each, and none of them in two.
    let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: isHuge ? hugePage : 64)
    // Where the kernel has none it remains small pages.
    if isHuge { madvise(memory, size, MADV_HUGEPAGE) }
    return UnsafeMutableBufferPointer(
      start: memory.bindMemory(to: DescriptorEntry.self, capacity: capacity), count: capacity)
  }

  // MARK: Calls

  /// An entry's source is being called: both live on until the call has returned, also if the source leaves meanwhile.
  ///
  /// Nothing is counted in the source itself, or written to its entry: what is written has to be carried back to memory.
  @inline(__always)
  func callBegins(_ entry: Reference) { clinux_loop_set_callee(entry.pointee.callee) }

  /// The call has returned.
  ///
  /// - Returns: Whether sources have left in calls: see ``takeUncalled()``.
  @inline(__always)
  func callEnds() -> Bool {
    clinux_loop_set_callee(clinux_loop_callee_t())
    return !kept.isEmpty
  }

  /// A nested run begins; the outer one's call continues when it ends.
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

  /// Whether the innermost run is calling a source.
  static func isInnermostCallee(_ source: Loop.DescriptorSource) -> Bool {
    clinux_loop_get_callee().source == UnsafeRawPointer(Unmanaged.passUnretained(source).toOpaque())
  }

  /// The sources that left in calls which have ended.
  mutating func takeUncalled() -> [Loop.DescriptorSource] {
    let leaving = kept.filter { !isCalled($0.entry) }
    let staying = kept.filter { isCalled($0.entry) }
    kept = staying
    vacant += leaving.map(\.entry)
    return leaving.compactMap { $0.entry.pointee.vacate(after: $0.generation) }
  }
}
