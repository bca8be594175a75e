/// The stacks of one stall merged from the outermost frame inwards, each node with the time that was spent in it.
///
/// Calls of the same function are one node, whatever the line. Bounded: beyond ``nodeLimit`` the time of a stack counts for the
/// part of it that is in the tree.
struct CallTree {
  /// A function in the place where it was called.
  struct Node {
    /// The frame as it was first seen.
    let frame: StackFrame
    /// Nil for an outermost one.
    let parent: Int?
    /// Nanoseconds in it and in what it called.
    fileprivate(set) var weight: UInt64
    /// Samples that met it.
    fileprivate(set) var samples = 0
    fileprivate var children: [Int] = []
  }

  /// The part of the tree in which most of the stall was spent.
  struct Path {
    /// The frames, innermost first.
    var frames: [StackFrame]
    /// The share of the sampled time that the innermost of them accounts for, from 0.5 to 1.
    var share: Double
  }

  static let nodeLimit = 2048

  /// Parents stand before their children.
  private(set) var nodes: [Node] = []
  /// Nanoseconds of all stacks.
  private(set) var total: UInt64 = 0
  private(set) var samples = 0
  private var roots: [Int] = []

  /// Adds a stack, innermost frame first, that stands for `weight` nanoseconds.
  mutating func add(_ stack: [StackFrame], weight: UInt64) {
    guard !stack.isEmpty else { return }
    total += weight
    samples += 1
    var parent: Int?
    for frame in stack.reversed() {
      let siblings = parent.map { nodes[$0].children } ?? roots
      let index: Int
      if let known = siblings.first(where: { nodes[$0].frame.isSameFunction(as: frame) }) {
        index = known
      } else {
        guard nodes.count < Self.nodeLimit else { return }
        index = nodes.count
        nodes.append(Node(frame: frame, parent: parent, weight: 0))
        if let parent { nodes[parent].children.append(index) } else { roots.append(index) }
      }
      nodes[index].weight += weight
      nodes[index].samples += 1
      parent = index
    }
  }

  /// The deepest frame of the host's own code that at least half of the time was spent in, with all that called it; nil if there is
  /// none.
  var heaviestPath: Path? {
    var path: [StackFrame] = []
    var length = 0
    var share = 0.0
    var level = roots
    while let index = level.max(by: { nodes[$0].weight < nodes[$1].weight }), nodes[index].weight >= total - total / 2 {
      path.append(nodes[index].frame)
      if nodes[index].frame.isHostCode {
        length = path.count
        share = Double(nodes[index].weight) / Double(total)
      }
      level = nodes[index].children
    }
    return length == 0 ? nil : Path(frames: path.prefix(length).reversed(), share: share)
  }

  /// The deepest frame of the host's own code that more than half of the samples met.
  ///
  /// By their number and not their time: of a thread that runs, the first sample's leaf was not met for all of the threshold.
  var commonFrame: StackFrame? {
    var common: StackFrame?
    var level = roots
    while let index = level.max(by: { nodes[$0].samples < nodes[$1].samples }), 2 * nodes[index].samples > samples {
      if nodes[index].frame.isHostCode { common = nodes[index].frame }
      level = nodes[index].children
    }
    return common
  }
}

extension StackFrame {
  func isSameFunction(as other: StackFrame) -> Bool {
    if let symbol { return symbol == other.symbol && module == other.module && isInlined == other.isInlined }
    return other.symbol == nil && (function ?? offset) == (other.function ?? other.offset) && module == other.module
  }
}
