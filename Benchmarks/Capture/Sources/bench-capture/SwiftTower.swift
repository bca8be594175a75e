import CTarget

/// Swift frames of several kinds above a target.
struct SwiftTower {
  let target: OpaquePointer

  @inline(never)
  func first(_ left: Int) {
    if left <= 0 { target_run(target) } else { second(left - 1, of: "tower") }
    keep()
  }

  @inline(never)
  func second<Name: StringProtocol>(_ left: Int, of name: Name) {
    if left <= 0 { target_run(target) } else { third([left - 1: name.count]) { $0 } }
    keep()
  }

  @inline(never)
  func third(_ levels: [Int: Int], transform: (Int) -> Int) {
    for left in levels.keys { if left <= 0 { target_run(target) } else { fourth(transform(left) - 1) } }
    keep()
  }

  @inline(never)
  func fourth(_ left: Int) { [left].forEach { $0 <= 0 ? target_run(target) : first($0 - 1) } }

  /// A frame above stays a frame.
  @inline(never)
  private func keep() { withExtendedLifetime(target) {} }
}
