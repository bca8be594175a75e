/// The total of the stalls that have the stack, the service, the machine and the cause in common.
struct StackShare: Hashable {
  /// A number of ``ReportSummary/stacks``; nil without a stack.
  var stack: UInt32?
  /// Numbers of ``ReportSummary/texts``.
  var service: UInt32
  var host: UInt32
  /// A number of ``ReportSummary/causes``.
  var cause: UInt8

  struct Sum {
    var milliseconds = 0.0
    var count = 0
  }

  /// The shares of all stalls, the heaviest first; together they are the whole.
  ///
  /// Machines are distinguished on request; otherwise ``host`` is 0.
  static func all(of summary: ReportSummary, perHost: Bool) -> [(share: StackShare, sum: Sum)] {
    var sums: [StackShare: Sum] = [:]
    for stall in summary.stalls {
      let share = StackShare(
        stack: stall.stack == Stall.noStack ? nil : stall.stack, service: stall.service, host: perHost ? stall.host : 0,
        cause: stall.cause)
      sums[share, default: Sum()].milliseconds += stall.milliseconds
      sums[share]!.count += Int(stall.count)
    }
    return sums.map { ($0.key, $0.value) }.sorted {
      ($1.sum.milliseconds, $0.share.order) < ($0.sum.milliseconds, $1.share.order)
    }
  }

  private var order: UInt64 { UInt64(stack ?? .max) << 32 | UInt64(service ^ host << 16) }

  /// The frames, innermost first; none without a stack.
  func frames(_ summary: ReportSummary) -> [ReportFrame] {
    stack.map { summary.frames(of: summary.stacks[Int($0)]) } ?? []
  }
}
