import LoopEngine

/// The allowances of connections that have ended, until they are full again: who connects anew goes on with one.
///
/// By where the host runs, so that neither a new connection nor a new process is worth a new burst. There are as many as were open at once.
struct LeftAllowances {
  /// Of all hosts: what is more is forgotten, and so is worth a burst.
  private static let limit = 4096
  private static let limitOfPlace = 256

  private var left: [String: [LineAllowance]] = [:]
  private var count = 0

  /// The emptiest one of the place's.
  mutating func take(_ place: String, rate: Double) -> LineAllowance? {
    let own = unfilled(left[place] ?? [], rate: rate)
    let emptiest = own.max { $0.timeToFill(rate: rate) < $1.timeToFill(rate: rate) }
    set(place, own.filter { $0 !== emptiest })
    emptiest?.users += 1
    emptiest?.limitDebt(rate: rate)
    return emptiest
  }

  /// A connection needs it no more.
  mutating func put(_ place: String, _ allowance: LineAllowance, rate: Double) {
    allowance.users -= 1
    guard allowance.users == 0, allowance.timeToFill(rate: rate) > .zero else { return }
    if count >= Self.limit { for (place, own) in left { set(place, unfilled(own, rate: rate)) } }
    var own = left[place] ?? []
    if own.count >= Self.limitOfPlace || count >= Self.limit,
      let fullest = own.indices.min(by: { own[$0].timeToFill(rate: rate) < own[$1].timeToFill(rate: rate) })
    {
      own.remove(at: fullest)
    }
    if own.count < Self.limitOfPlace, count < Self.limit || own.count < left[place]?.count ?? 0 {
      own.append(allowance)
    }
    set(place, own)
  }

  private func unfilled(_ allowances: [LineAllowance], rate: Double) -> [LineAllowance] {
    allowances.filter { $0.timeToFill(rate: rate) > .zero }
  }

  private mutating func set(_ place: String, _ own: [LineAllowance]) {
    count += own.count - (left[place]?.count ?? 0)
    left[place] = own.isEmpty ? nil : own
  }
}
