/// What other threads have asked for and the loop's thread has not made yet: which items are to be in which modes.
///
/// With an item's own modes, which change under the same lock, it answers another thread's question without the loop's thread.
struct Memberships {
  private struct Key: Hashable {
    let item: ObjectIdentifier
    let mode: Int32
  }
  private struct Request {
    var count: Int
    var isAddition: Bool
    let item: AnyObject
  }
  private var requests: [Key: Request] = [:]

  /// Notes what was asked for; the last word counts.
  mutating func request(_ item: AnyObject, _ mode: Int32, isAddition: Bool) {
    let key = Key(item: ObjectIdentifier(item), mode: mode)
    let count = requests[key]?.count ?? 0
    requests[key] = Request(count: count + 1, isAddition: isAddition, item: item)
  }

  /// It has been made, or refused.
  mutating func settle(_ item: AnyObject, _ mode: Int32) {
    let key = Key(item: ObjectIdentifier(item), mode: mode)
    guard let request = requests[key] else { return }
    if request.count > 1 { requests[key]!.count -= 1 } else { requests[key] = nil }
    if requests.isEmpty { requests = [:] }
  }

  /// Whether an item is to be in a mode, nil if nothing was asked for.
  func answer(_ item: AnyObject, _ mode: Int32) -> Bool? {
    requests.isEmpty ? nil : requests[Key(item: ObjectIdentifier(item), mode: mode)]?.isAddition
  }

  /// The earliest date of the timers that are to be in a mode.
  func firstTimer(in modes: [Int32]) -> Int64 {
    requests.reduce(Int64.max) { first, entry in
      guard modes.contains(entry.key.mode), entry.value.isAddition, let timer = entry.value.item as? Loop.Timer,
        timer.isValid
      else { return first }
      return min(first, timer.deadlineNanoseconds)
    }
  }
}

extension Loop {
  /// Adds an item to a mode or takes it out, at once on the loop's thread and soon from any other.
  ///
  /// False when the loop's thread has ended.
  @discardableResult
  func changeMembership(
    of item: AnyObject, _ mode: Int32, isAddition: Bool, waking: Bool, _ body: @escaping () -> Void
  ) -> Bool {
    if isOwner { return change(body) }
    memberships.withLock { $0.request(item, mode, isAddition: isAddition) }
    if isAddition { note(Mode(id: mode)) }
    let isTaken = inbox.post(
      control: {
        body()
        self.memberships.withLock { $0.settle(item, mode) }
      }, waking: waking)
    if !isTaken { memberships.withLock { $0.settle(item, mode) } }
    return isTaken
  }

  /// Whether an item is in a mode, as far as the calling thread can know.
  func isMember(_ item: AnyObject, of mode: Mode, isValid: Bool, _ isIn: () -> Bool) -> Bool {
    if isOwnerOrNow {
      absorb()
      return isIn()
    }
    guard isValid, !hasEnded else { return false }
    return memberships.withLock { $0.answer(item, mode.id) ?? isIn() }
  }

  /// A source that was taken out of some of the common modes is in all of them again, or is about to be in none.
  func endExceptions(of keys: inout ModeKeys) {
    assertOwner()
    for key in memberships.withLock({ _ in keys.takeExceptions() }) { makeMode(key).exceptedSources -= 1 }
  }
}
