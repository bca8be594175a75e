/// A fast hash of bytes, eight at a time; another one in each process, so that nobody can prepare bytes that collide.
///
/// Both halves of the 64 bits are the same 32: a ``HashIndex`` keeps only one.
enum WordHash {
  private static let seed = UInt64.random(in: .min ... .max)

  static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 { folded(wide(bytes)) }

  static func hash(_ first: UInt64, _ second: UInt64) -> UInt64 { folded(mix(mix(seed, first), second)) }

  /// All 64 bits, for what is known by its hash alone.
  static func wide(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
    var hash = seed ^ UInt64(bytes.count)
    guard let base = bytes.baseAddress else { return hash }
    let raw = UnsafeRawPointer(base)
    var position = 0
    while position + 8 <= bytes.count {
      hash = mix(hash, raw.loadUnaligned(fromByteOffset: position, as: UInt64.self))
      position += 8
    }
    var rest: UInt64 = 0
    while position < bytes.count {
      rest = rest << 8 | UInt64(base[position])
      position += 1
    }
    return mix(hash, rest)
  }

  @inline(__always)
  private static func mix(_ hash: UInt64, _ word: UInt64) -> UInt64 {
    let product = (hash ^ word ^ 0x9e37_79b9_7f4a_7c15).multipliedFullWidth(by: 0xd6e8_feb8_6659_fd93)
    return product.high ^ product.low &+ hash.byteSwapped
  }

  @inline(__always)
  private static func folded(_ hash: UInt64) -> UInt64 {
    let half = UInt64(UInt32(truncatingIfNeeded: hash ^ hash >> 32))
    return half << 32 | half
  }
}
