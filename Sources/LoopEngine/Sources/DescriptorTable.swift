import CLinux

/// The descriptor sources of a loop by token: what the kernel hands back with an event.
///
/// A token is the source's address and a number that tells apart the sources which lived there. As long as no source has left
/// since the kernel was asked, the address can be trusted, and among ten thousand sources nothing else need be fetched
/// from memory. Otherwise it is looked up, and an event that outlives its source finds nothing and not somebody else.
struct DescriptorTable: ~Copyable {
  private var sources: [UInt: Loop.DescriptorSource] = [:]
  /// Sources that have left while they are being called.
  private var leaving: [Loop.DescriptorSource] = []
  private var generation: UInt64 = 0
  /// How many sources have left, so that a pass can tell whether it may trust its events.
  private(set) var removals = 0

  // Addresses of user space have 47 bits on x86_64 and 48 on arm64.
  private static let addressBits: UInt64 = 48

  var all: [Loop.DescriptorSource] { Array(sources.values) }

  mutating func insert(_ source: Loop.DescriptorSource) {
    let address = UInt(bitPattern: Unmanaged.passUnretained(source).toOpaque())
    generation &+= 1
    sources[address] = source
    source.token = UInt64(address) | generation << Self.addressBits
  }

  mutating func remove(_ source: Loop.DescriptorSource) {
    guard source.token != 0 else { return }
    // A call of it goes on without a reference of its own.
    if source.callDepth > 0 { leaving.append(source) }
    sources[Self.address(of: source.token)] = nil
    source.token = 0
    removals &+= 1
  }

  /// Lets go of a source that left during its own call.
  @inline(never)
  mutating func callDidEnd(of source: Loop.DescriptorSource) {
    if let index = leaving.firstIndex(where: { $0 === source }) { leaving.remove(at: index) }
  }

  mutating func removeAll() {
    for source in sources.values {
      if source.callDepth > 0 { leaving.append(source) }
      source.token = 0
      source.keys = []
    }
    sources = [:]
    removals &+= 1
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

  /// Fetches what a call of the source will need: of ten thousand the next one is in no cache.
  @inline(__always)
  static func prefetch(_ token: UInt64) {
    clinux_prefetch(UnsafeRawPointer(bitPattern: address(of: token)))
  }

  @inline(__always)
  private static func address(of token: UInt64) -> UInt { UInt(token & (1 << addressBits - 1)) }
}
