extension Loop {
  /// The moments of a run at which observers are called; raw values are CoreFoundation's.
  public struct Activity: OptionSet, Hashable, Sendable {
    /// CoreFoundation's bit mask.
    public let rawValue: UInt

    /// Makes a set from CoreFoundation's bit mask.
    @inlinable
    public init(rawValue: UInt) {
      self.rawValue = rawValue
    }

    /// The run has begun: once a run, before anything else.
    public static var entry: Activity { Activity(rawValue: 1) }
    /// A pass begins.
    public static var beforeTimers: Activity { Activity(rawValue: 2) }
    /// Blocks and signalled sources are checked next.
    public static var beforeSources: Activity { Activity(rawValue: 4) }
    /// The loop is about to sleep.
    public static var beforeWaiting: Activity { Activity(rawValue: 32) }
    /// The loop has woken and has not yet served what woke it.
    public static var afterWaiting: Activity { Activity(rawValue: 64) }
    /// The run ends: once a run, after everything else.
    public static var exit: Activity { Activity(rawValue: 128) }
    static var inEachPass: Activity { Activity(rawValue: 2 | 4 | 32 | 64) }
    /// All six, and those that later versions may add.
    public static var all: Activity { Activity(rawValue: 0x0FFF_FFFF) }
  }
}

extension Loop.Activity: CustomStringConvertible {
  /// The activities in words, as `[.beforeWaiting, .afterWaiting]`.
  public var description: String {
    if self == .all { return "[.all]" }
    return words([
      ("entry", .entry), ("beforeTimers", .beforeTimers), ("beforeSources", .beforeSources),
      ("beforeWaiting", .beforeWaiting), ("afterWaiting", .afterWaiting), ("exit", .exit),
    ])
  }
}

extension OptionSet where RawValue: FixedWidthInteger & UnsignedInteger, Element == Self {
  /// The names of the members, and the bits that have none as a number.
  func words(_ names: [(String, Self)]) -> String {
    let present = names.filter { contains($0.1) }
    let unnamed = names.reduce(rawValue) { $0 & ~$1.1.rawValue }
    let words = present.map { "." + $0.0 } + (unnamed == 0 ? [] : ["0x" + String(unnamed, radix: 16)])
    return "[" + words.joined(separator: ", ") + "]"
  }
}
