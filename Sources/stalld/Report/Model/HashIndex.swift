/// Finds numbers by a hash of what they represent: eight bytes a slot, with the numbers' owner keeping the rest.
struct HashIndex {
  /// The upper half of the hash, and the number + 1; 0 is free.
  private var slots: [UInt64] = Array(repeating: 0, count: 64)
  private var count = 0

  /// The number with this hash that `isSame` accepts.
  @inline(__always)
  func find(_ hash: UInt64, isSame: (UInt32) -> Bool) -> UInt32? {
    let mask = slots.count - 1
    var position = Int(truncatingIfNeeded: hash) & mask
    while true {
      let slot = slots[position]
      if slot == 0 { return nil }
      if slot >> 32 == hash >> 32 {
        let number = UInt32(truncatingIfNeeded: slot) - 1
        if isSame(number) { return number }
      }
      position = (position + 1) & mask
    }
  }

  /// Adds a number that is not there yet.
  mutating func insert(_ number: UInt32, _ hash: UInt64) {
    // The lower half of a hash is not kept: both halves are alike, so the upper half gives the place in a larger table.
    if (count + 1) * 3 > slots.count * 2 { grow() }
    count += 1
    place(hash & ~0xffff_ffff | UInt64(number + 1))
  }

  private mutating func place(_ slot: UInt64) {
    let mask = slots.count - 1
    var position = Int(truncatingIfNeeded: slot >> 32) & mask
    while slots[position] != 0 { position = (position + 1) & mask }
    slots[position] = slot
  }

  private mutating func grow() {
    let old = slots
    slots = Array(repeating: 0, count: old.count * 2)
    for slot in old where slot != 0 { place(slot) }
  }
}
