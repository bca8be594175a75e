/// A limited amount that owners take parts of, by one rule: nobody has more than what is left.
///
/// So one owner gets at most a half, the next one a quarter, and something is always left for others.
struct SharedAllowance<Owner: Hashable>: Equatable {
  /// What each owner has taken: those who have something.
  private(set) var taken: [Owner: Int] = [:]
  /// What all have taken.
  private(set) var total = 0

  /// Takes an amount for an owner; false, and nothing is taken, if that is more than the owner may have.
  mutating func take(_ amount: Int = 1, for owner: Owner, limit: Int) -> Bool {
    guard allows(amount, for: owner, limit: limit) else { return false }
    add(amount, for: owner)
    return true
  }

  /// Whether ``take(_:for:limit:)`` would take an amount.
  func allows(_ amount: Int, for owner: Owner, limit: Int) -> Bool {
    taken[owner, default: 0] + amount <= limit - total
  }

  /// Corrects what an owner has taken, without a check of the limit; it is never less than 0.
  mutating func add(_ amount: Int, for owner: Owner) {
    guard amount != 0 else { return }
    let old = taken[owner, default: 0]
    let new = max(0, old + amount)
    taken[owner] = new > 0 ? new : nil
    total += new - old
  }
}
