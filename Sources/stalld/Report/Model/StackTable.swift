/// The stacks of all lines, each once, made of frames that are kept once.
///
/// Bounded: beyond ``stackLimit`` a new stack is left out.
struct StackTable {
  static let stackLimit = 100_000
  private static let frameLimit = 1 << 18
  /// Frames of one stack.
  private static let depthLimit = 1024

  private(set) var frames: [ReportFrame] = []
  private var numbers: [ReportFrame: UInt32] = [:]
  /// The numbers of all stacks' frames, innermost first, and where each stack ends.
  private var members: [UInt32] = []
  private var ends: [Int] = []
  private var index = HashIndex()
  /// Stacks by the bytes that a line had them in.
  private var seen: [UInt64: UInt32] = [:]
  /// Lines whose stack is left out; some that repeat such a stack are not counted.
  private(set) var omitted = 0

  var count: Int { ends.count }

  /// The frames of a stack as numbers of ``frames``, innermost first.
  subscript(_ stack: UInt32) -> ArraySlice<UInt32> {
    members[(stack == 0 ? 0 : ends[Int(stack) - 1])..<ends[Int(stack)]]
  }

  /// The stack that these bytes of a line were found to be.
  func stack(writtenAs hash: UInt64) -> UInt32? { seen[hash] }

  /// Remembers what these bytes of a line are.
  mutating func remember(_ stack: UInt32, writtenAs hash: UInt64) {
    if seen.count < 2 * Self.stackLimit { seen[hash] = stack }
  }

  /// The number of a stack, which is kept if it is new; ``Stall/noStack`` if it is empty or there is no space.
  mutating func number(of stack: [ReportFrame]) -> UInt32 {
    guard !stack.isEmpty else { return Stall.noStack }
    var path: [UInt32] = []
    for frame in stack.prefix(Self.depthLimit) {
      guard let number = number(of: frame) else {
        omitted += 1
        return Stall.noStack
      }
      path.append(number)
    }
    let hash = path.withUnsafeBytes { WordHash.hash($0.bindMemory(to: UInt8.self)) }
    if let known = index.find(hash, isSame: { self[$0].elementsEqual(path) }) { return known }
    guard ends.count < Self.stackLimit else {
      omitted += 1
      return Stall.noStack
    }
    let number = UInt32(ends.count)
    members += path
    ends.append(members.count)
    index.insert(number, hash)
    return number
  }

  private mutating func number(of frame: ReportFrame) -> UInt32? {
    if let known = numbers[frame] { return known }
    guard frames.count < Self.frameLimit else { return nil }
    let number = UInt32(frames.count)
    frames.append(frame)
    numbers[frame] = number
    return number
  }

  /// Counts a line whose stack another table left out.
  mutating func addOmitted(_ count: Int) { omitted += count }
}
