/// Which frames of a line have no name, and of which builds they are.
struct FrameScan {
  var hasTree = false
  private var isUnnamed = false
  private var hasSymbol = false
  private var build: Range<Int>?
  /// The one of the frame before.
  private var last: Range<Int>?
  private var builds: [UInt64] = []

  /// More are not told apart.
  private static let limit = 16

  mutating func begin() { (hasSymbol, build) = (false, nil) }

  @inline(__always)
  mutating func note(_ bytes: UnsafeBufferPointer<UInt8>, _ key: Range<Int>, _ value: Range<Int>) {
    if key.count == 6, JSONTokens.matches("symbol", bytes, at: key.lowerBound) { hasSymbol = true }
    if key.count == 8, JSONTokens.matches("build_id", bytes, at: key.lowerBound) { build = value }
  }

  mutating func end(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard !hasSymbol, let build else { return }
    isUnnamed = true
    if let last, JSONTokens.equal(bytes, last, build) { return }
    last = build
    guard builds.count <= Self.limit else { return }
    // FNV-1a.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes[build] { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    if !builds.contains(hash) { builds.append(hash) }
  }

  func finish(_ parts: inout LineScanner.Parts) {
    parts.lacksNames = isUnnamed || hasTree
    guard isUnnamed, !hasTree, builds.count <= Self.limit else { return }
    parts.unnamedBuilds = builds.reduce(0, &+)
  }
}
