import StallReport

/// The frames of a line that have no name, and their builds.
struct FrameScan {
  var hasTree = false
  private var isUnnamed = false
  private var hasSymbol = false
  private var build: Range<Int>?
  /// The one of the frame before.
  private var last: Range<Int>?
  private var builds: [UInt64] = []

  /// More are not distinguished.
  private static let limit = 16

  mutating func begin() { (hasSymbol, build) = (false, nil) }

  @inline(__always)
  mutating func note(_ json: JSONScanner, _ key: JSONScanner.Text, _ value: Range<Int>) {
    if json.is(key, "symbol") { hasSymbol = true }
    if json.is(key, "build_id") { build = value }
  }

  mutating func end(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard !hasSymbol, let build else { return }
    isUnnamed = true
    if let last, bytes[last].elementsEqual(bytes[build]) { return }
    last = build
    guard builds.count <= Self.limit else { return }
    var hash = FNV1a()
    hash.combine(UnsafeBufferPointer(rebasing: bytes[build]))
    if !builds.contains(hash.value) { builds.append(hash.value) }
  }

  func finish(_ parts: inout LineScanner.Parts) {
    parts.lacksNames = isUnnamed || hasTree
    guard isUnnamed, !hasTree, builds.count <= Self.limit else { return }
    parts.unnamedBuilds = builds.reduce(0, &+)
  }
}
