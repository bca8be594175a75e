/// FNV-1a, 64 bits (Fowler, Noll, Vo): stable over platforms and versions, unlike `Hasher`.
@usableFromInline
package struct FNV1a {
  @usableFromInline
  package internal(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  /// `seed` is mixed in first.
  @inlinable
  package init(seed: UInt64 = 0) { value ^= seed }

  @inlinable
  package mutating func combine(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }

  @inlinable
  package mutating func combine(_ bytes: some Sequence<UInt8>) { for byte in bytes { combine(byte) } }
}
