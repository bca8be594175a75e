/// The stacks of one stall merged from the outermost frame inwards, each node with the time that was spent in it.
///
/// Calls of the same function are one node, also from several lines; of a frame without a name,
/// calls of the same place. Bounded: beyond ``nodeLimit`` the time of a stack counts for the part
/// of it that is in the tree.
package struct CallTree {
  /// A function in the place where it was called.
  package struct Node {
    /// The frame as it was first seen.
    package let frame: StackFrame
    /// Nil for an outermost one.
    package let parent: Int?
    /// Nanoseconds in it and in what it called.
    package fileprivate(set) var weight: UInt64
    /// Samples that met it.
    package fileprivate(set) var samples = 0
    /// The part of both that belongs to deeper frames, which are not in the tree.
    package fileprivate(set) var cut = Cut()
    package fileprivate(set) var children: [Int] = []
  }

  /// Time and samples of frames that the tree has no space for.
  package struct Cut {
    package fileprivate(set) var weight: UInt64 = 0
    package fileprivate(set) var samples = 0

    fileprivate mutating func add(_ other: Cut) {
      weight += other.weight
      samples += other.samples
    }
  }

  /// The part of the tree in which most of the stall was spent.
  package struct Path {
    /// The frames, innermost first.
    package var frames: [StackFrame]
    /// The share of the sampled time that the innermost of them accounts for, from 0.5 to 1.
    package var share: Double

    package init(frames: [StackFrame], share: Double) {
      self.frames = frames
      self.share = share
    }
  }

  package static let nodeLimit = 2048

  /// Parents come before their children.
  package private(set) var nodes: [Node] = []
  /// Nanoseconds of all stacks.
  package private(set) var total: UInt64 = 0
  package private(set) var samples = 0
  package private(set) var roots: [Int] = []
  /// What of all stacks has no frame in the tree.
  package private(set) var cut = Cut()

  package init() {}

  /// A tree to which parts of another one are added, which has been made of so many samples.
  package init(samples: Int, weight: UInt64) {
    self.init()
    (self.samples, total) = (samples, weight)
  }

  /// Adds a stack, innermost frame first, that represents `weight` nanoseconds; `samples` is 0 for more time of one that has been added.
  ///
  /// Returns the node of the innermost frame; nil if there is none.
  @discardableResult
  package mutating func add(_ stack: [StackFrame], weight: UInt64, samples count: Int = 1) -> Int? {
    guard !stack.isEmpty else { return nil }
    total += weight
    samples += count
    return add(stack, under: nil, weight: weight, samples: count)
  }

  /// The stack that ends in a node, innermost frame first.
  package func stack(of node: Int) -> [StackFrame] {
    Array(sequence(first: node) { nodes[$0].parent }.lazy.map { nodes[$0].frame })
  }

  /// The same stacks with the frames that `names` finds at each place, innermost first, and which node there is which of these here; nil
  /// for one that there was no space for.
  package func named(by names: (StackFrame) -> [StackFrame]) -> (tree: CallTree, numbers: [Int?]) {
    var tree = CallTree(samples: samples, weight: total)
    tree.cut = cut
    var numbers: [Int?] = []
    numbers.reserveCapacity(nodes.count)
    for node in nodes {
      let caller = node.parent.flatMap { numbers[$0] }
      guard node.parent == nil || caller != nil else {
        numbers.append(nil)
        continue
      }
      let number = tree.add(names(node.frame), under: caller, weight: node.weight, samples: node.samples)
      if let number { tree.nodes[number].cut.add(node.cut) }
      numbers.append(number)
    }
    return (tree, numbers)
  }

  /// Adds frames, innermost first, to what was called from a node, or from nowhere.
  ///
  /// Returns the node of the innermost; nil if there was no space.
  package mutating func add(_ frames: [StackFrame], under caller: Int?, weight: UInt64, samples: Int) -> Int? {
    var parent = caller
    for frame in frames.reversed() {
      let siblings = parent.map { nodes[$0].children } ?? roots
      guard nodes.count < Self.nodeLimit || siblings.contains(where: { isSame(nodes[$0].frame, frame) }) else {
        cut(under: parent, weight: weight, samples: samples)
        return nil
      }
      parent = merge(frame, under: parent, weight: weight, samples: samples)
    }
    return parent
  }

  /// Notes that frames called from a node, or from nowhere, were left out.
  package mutating func cut(under caller: Int?, weight: UInt64, samples: Int) {
    func note(_ cut: inout Cut) {
      cut.weight += weight
      cut.samples += samples
    }
    if let caller { note(&nodes[caller].cut) } else { note(&cut) }
  }

  private func isSame(_ a: StackFrame, _ b: StackFrame) -> Bool {
    a.isAsync == b.isAsync && a.isSameFunction(as: b)
  }

  // They are the outermost.
  private var hasAsyncCallers: Bool { roots.contains { nodes[$0].frame.isAsync } }

  /// The same stacks without the functions that wait for asynchronous calls, which are not known of each sample.
  private var withoutAsyncCallers: CallTree {
    var tree = CallTree()
    (tree.samples, tree.total, tree.cut) = (samples, total, cut)
    // The number of each node there; -1 of an asynchronous caller, which only others or nothing can be outside of.
    var numbers: [Int] = []
    for node in nodes {
      let parent = node.parent.flatMap { numbers[$0] < 0 ? nil : numbers[$0] }
      let number =
        node.frame.isAsync ? -1 : tree.merge(node.frame, under: parent, weight: node.weight, samples: node.samples)
      numbers.append(number)
      if number < 0 {
        tree.cut.add(node.cut)
      } else {
        tree.nodes[number].cut.add(node.cut)
      }
    }
    return tree
  }

  /// Adds to the call of a function from a node, or from nowhere, without regard to ``nodeLimit``.
  private mutating func merge(_ frame: StackFrame, under parent: Int?, weight: UInt64, samples: Int) -> Int {
    let siblings = parent.map { nodes[$0].children } ?? roots
    let index = siblings.first { isSame(nodes[$0].frame, frame) } ?? append(frame, under: parent)
    nodes[index].weight += weight
    nodes[index].samples += samples
    return index
  }

  private mutating func append(_ frame: StackFrame, under parent: Int?) -> Int {
    nodes.append(Node(frame: frame, parent: parent, weight: 0))
    let index = nodes.count - 1
    if let parent { nodes[parent].children.append(index) } else { roots.append(index) }
    return index
  }

  // MARK: What it says

  /// The deepest frame of the service's own code that at least half of the time was spent in, with all that called it, nil if there is
  /// none; and whether it is certain: the same with any names for the frames without one.
  ///
  /// The functions that wait for asynchronous calls follow if they are the same for most of the
  /// time.
  package var certainPath: (path: Path?, isCertain: Bool) {
    let whole = certainCallPath
    guard hasAsyncCallers else { return whole }
    let calls = withoutAsyncCallers.certainCallPath
    let isCertain = whole.isCertain && calls.isCertain
    guard let call = calls.path?.frames.first else { return (whole.path, isCertain) }
    let isSameCall = whole.path?.frames.first.map { isSame($0, call) } ?? false
    return (isSameCall ? whole.path : calls.path, isCertain)
  }

  private var certainCallPath: (path: Path?, isCertain: Bool) {
    let way = heaviestWay
    return (path(of: way.nodes), way.isCertain)
  }

  /// The deepest frame of the service's own code that more than half of the samples met, and whether it is certain: the same with any names
  /// for the frames without one.
  ///
  /// By their number and not their time: the first sample represents the whole threshold, but a running thread was not in its innermost
  /// function for so long.
  package var certainCommonFrame: (frame: StackFrame?, isCertain: Bool) {
    guard hasAsyncCallers else { return certainCommonCall }
    return withoutAsyncCallers.certainCommonCall
  }

  private var certainCommonCall: (frame: StackFrame?, isCertain: Bool) {
    let way = way({ UInt64($0.samples) }, { UInt64($0.samples) }) { 2 * $0 > UInt64(samples) }
    return (way.nodes.last { nodes[$0].frame.isHostCode }.map { nodes[$0].frame }, way.isCertain)
  }

  private var heaviestWay: Way {
    way(\.weight, \.weight) { $0 >= total - total / 2 }
  }

  private func path(of way: [Int]) -> Path? {
    guard let last = way.lastIndex(where: { nodes[$0].frame.isHostCode }) else { return nil }
    return Path(
      frames: way[...last].reversed().map { nodes[$0].frame },
      share: Double(nodes[way[last]].weight) / Double(total))
  }

  private struct Way {
    var nodes: [Int] = []
    /// No name that is not known, and no frame that was left out, could lead another way or further.
    var isCertain = true
  }

  /// The way inwards, as long as one call has enough of the whole.
  private func way(_ size: (Node) -> UInt64, _ cutSize: (Cut) -> UInt64, isEnough: (UInt64) -> Bool) -> Way {
    var way = Way()
    guard samples > 0, total > 0 else { return way }
    // What may be calls of the functions on the way, and so add to anything further in.
    var doubt: UInt64 = 0
    let leads = leadsToHostCode
    var level = roots
    var left = cut
    while true {
      doubt += cutSize(left)
      // No way into libraries alone ends anywhere.
      level.removeAll { !leads[$0] }
      let best = level.max { size(nodes[$0]) < size(nodes[$1]) }
      guard let best, isEnough(size(nodes[best])) else {
        let most = mostThatMayBeOne(level, size)
        if doubt + most.unnamed > 0, isEnough(doubt + most.size) { way.isCertain = false }
        return way
      }
      if nodes[best].frame.symbol == nil, nodes[best].frame.isHostCode { way.isCertain = false }
      for other in level where other != best && nodes[other].frame.mayBeSameFunction(as: nodes[best].frame) {
        doubt += size(nodes[other])
      }
      way.nodes.append(best)
      level = nodes[best].children
      left = nodes[best].cut
    }
  }

  /// Of each node, whether it or anything that it called is the service's own code, or may be, because frames were left out.
  package var leadsToHostCode: [Bool] {
    var leads = nodes.map { $0.frame.isHostCode || $0.cut.samples > 0 }
    for index in nodes.indices.reversed() where leads[index] {
      if let parent = nodes[index].parent { leads[parent] = true }
    }
    return leads
  }

  /// The largest total that one function can have if calls without a name are counted as its calls, and the part of them in it.
  private func mostThatMayBeOne(_ level: [Int], _ size: (Node) -> UInt64) -> (size: UInt64, unnamed: UInt64) {
    var unnamed: [String: UInt64] = [:]
    var named: [String: UInt64] = [:]
    for node in level.map({ nodes[$0] }) {
      let module = node.frame.module ?? ""
      if node.frame.symbol == nil {
        unnamed[module, default: 0] += size(node)
      } else {
        named[module] = max(named[module] ?? 0, size(node))
      }
    }
    // Where all have names, what they are is settled: only what is in doubt can add to the largest.
    let certain = named.values.max() ?? 0
    return unnamed.map { ((named[$0.key] ?? 0) + $0.value, $0.value) }.max { $0.0 < $1.0 }
      .map { $0.0 > certain ? $0 : (certain, $0.1) } ?? (certain, 0)
  }
}

extension StackFrame {
  package func isSameFunction(as other: StackFrame) -> Bool {
    if let symbol { return symbol == other.symbol && module == other.module && isInlined == other.isInlined }
    return other.symbol == nil && isSamePlace(as: other)
  }

  package func isSamePlace(as other: StackFrame) -> Bool { offset == other.offset && module == other.module }

  /// Whether one of them has no name, and might have the other's.
  fileprivate func mayBeSameFunction(as other: StackFrame) -> Bool {
    (symbol == nil || other.symbol == nil) && module == other.module
  }
}
