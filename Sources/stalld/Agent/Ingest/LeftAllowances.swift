import LoopEngine

/// What was left of the allowances of connections that have ended: who connects again goes on with one.
///
/// By where the host runs, so that neither a new connection nor a new process is worth a new burst. There are as many as were open at once.
struct LeftAllowances {
  /// At most, of all hosts; the one that is nearest to full goes first.
  private static let limit = 4096
  private static let limitOfPlace = 256

  private var left: [String: [LineAllowance]] = [:]
  private(set) var count = 0

  /// The emptiest one of the place's.
  mutating func take(_ place: String, rate: Double) -> LineAllowance? {
    guard var own = left[place] else { return nil }
    count -= own.count
    defer {
      left[place] = own.isEmpty ? nil : own
      count += own.count
    }
    var times = own.indices.map { own[$0].timeToFill(rate: rate) }
    for index in own.indices.reversed() where times[index] <= .zero {
      own.remove(at: index)
      times.remove(at: index)
    }
    guard let longest = times.max(), let index = times.firstIndex(of: longest) else { return nil }
    return own.remove(at: index).inherited(rate: rate)
  }

  /// Keeps one until it is full again.
  mutating func put(_ place: String, _ allowance: LineAllowance, rate: Double) {
    var allowance = allowance
    guard allowance.timeToFill(rate: rate) > .zero else { return }
    if count >= Self.limit { forgetFull(rate: rate) }
    guard count < Self.limit else { return }
    var own = left[place] ?? []
    if own.count >= Self.limitOfPlace {
      let times = own.indices.map { own[$0].timeToFill(rate: rate) }
      let shortest = times.indices.min { times[$0] < times[$1] } ?? 0
      guard times[shortest] < allowance.timeToFill(rate: rate) else { return }
      own.remove(at: shortest)
      count -= 1
    }
    own.append(allowance)
    left[place] = own
    count += 1
  }

  private mutating func forgetFull(rate: Double) {
    for (place, own) in left {
      var own = own
      count -= own.count
      own = own.filter {
        var copy = $0
        return copy.timeToFill(rate: rate) > .zero
      }
      count += own.count
      left[place] = own.isEmpty ? nil : own
    }
  }
}
