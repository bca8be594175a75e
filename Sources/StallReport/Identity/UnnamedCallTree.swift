/// All samples of a stall, merged by address, for the tool that adds names.
///
/// The fingerprint of a stall on CPU depends on the names of all its samples (``CallTree/certainCommonFrame``), and a line has only one stack. A line
/// without these names therefore has this tree as well, and the tool that adds the names removes it. Calls that cannot change the answer are omitted:
/// those that lead to no code of the service, and the middle of the path that all samples have in common. If the line is still too long, more nodes
/// are removed, and the number of samples that continue there is kept.
package struct UnnamedCallTree: Sendable {
  private struct Node {
    var parent: Int
    /// Nil for what was left out.
    var place: StackFrame?
    var samples: Int
    var weight: UInt64
    var depth: Int
  }

  /// Of what all samples have in common: more names than a path has, on both sides.
  private static let outerPrefix = 8
  private static let innerPrefix = 48
  package static let nodeLimit = 512
  private static let leastNodes = 2
  /// What the member takes beside its value's members: the key, braces and a comma.
  package static let memberOverhead = "\"call_tree\":{},".utf8.count

  private var nodes: [Node] = []
  private let samples: Int
  private let weight: UInt64

  /// Nil if there are no samples.
  ///
  /// - Parameter tree: Of frames without names.
  package init?(_ tree: CallTree) {
    guard tree.samples > 0 else { return nil }
    (samples, weight) = (tree.samples, tree.total)
    let leads = tree.leadsToHostCode
    let common = tree.nodes.prefix { $0.samples == tree.samples && $0.children.count == 1 }.count
    // The number of each node here; -1 of none.
    var numbers: [Int] = []
    for (index, node) in tree.nodes.enumerated() {
      let parent = node.parent.map { numbers[$0] } ?? -1
      guard leads[index], index < Self.outerPrefix || index >= common - Self.innerPrefix else {
        // What it called hangs on what called it.
        numbers.append(leads[index] ? parent : -1)
        continue
      }
      numbers.append(nodes.count)
      nodes.append(
        Node(
          parent: parent, place: node.frame, samples: node.samples, weight: node.weight,
          depth: parent < 0 ? 0 : nodes[parent].depth + 1))
      addCut(node.cut, under: numbers[index])
    }
    addCut(tree.cut, under: -1)
    keep(Self.nodeLimit)
  }

  private mutating func addCut(_ cut: CallTree.Cut, under parent: Int) {
    guard cut.samples > 0 else { return }
    nodes.append(Node(parent: parent, place: nil, samples: cut.samples, weight: cut.weight, depth: .max))
  }

  /// Leaves so many nodes, those that most samples met, and of these the outer ones; and of the others, how much they represent.
  private mutating func keep(_ limit: Int) {
    guard nodes.count > limit else { return }
    let order = nodes.indices.sorted {
      (nodes[$1].samples, nodes[$0].depth, $0) < (nodes[$0].samples, nodes[$1].depth, $1)
    }
    let kept = Set(order.prefix(limit).filter { nodes[$0].place != nil })
    var numbers = [Int](repeating: -1, count: nodes.count)
    var result: [Node] = []
    var cuts: [Int: Node] = [:]
    for (index, var node) in nodes.enumerated() {
      let isInside = node.parent < 0 || kept.contains(node.parent)
      if node.parent >= 0 { node.parent = numbers[node.parent] }
      if kept.contains(index) {
        numbers[index] = result.count
        result.append(node)
      } else if isInside {
        var cut = cuts[node.parent] ?? Node(parent: node.parent, place: nil, samples: 0, weight: 0, depth: .max)
        cut.samples += node.samples
        cut.weight += node.weight
        cuts[node.parent] = cut
      }
    }
    nodes = result + cuts.values.sorted { $0.parent < $1.parent }
  }

  /// The member's value in at most `room` bytes; nil if there is too little.
  ///
  /// Members of ``nodes`` are arrays of one length, for the sake of readers that want values of one type.
  package func json(room: Int) -> JSONWriter? {
    var smaller = self
    var count = nodes.count
    while true {
      let json = smaller.json
      let size = json.bytes.count + Self.memberOverhead
      if size <= room { return json }
      // What represents the rest takes space, too.
      count = min(count * 3 / 4, count * max(room, 0) / size)
      guard count >= Self.leastNodes else { return nil }
      smaller = self
      smaller.keep(count)
    }
  }

  private var json: JSONWriter {
    var modules: [JSONWriter] = []
    var numbers: [String: Int] = [:]
    func number(_ frame: StackFrame?) -> Int {
      guard let frame, let module = frame.module else { return -1 }
      if let known = numbers[module] { return known }
      var object = JSONWriter()
      object.member("module", module.limited(to: 300))
      object.member("build_id", frame.buildID)
      modules.append(object)
      numbers[module] = modules.count - 1
      return modules.count - 1
    }
    let moduleNumbers = nodes.map { number($0.place) }
    var line = JSONWriter()
    line.member("samples", samples)
    line.member("weight_ms", milliseconds: weight)
    line.array("modules", modules)
    line.object("nodes", required: true) {
      $0.array("parent", nodes.map(\.parent))
      $0.array("module", moduleNumbers)
      $0.array("offset", nodes.map { "0x" + String($0.place?.offset ?? 0, radix: 16) })
      $0.array("samples", nodes.map(\.samples))
      $0.array("weight_ms", milliseconds: nodes.map(\.weight))
      let marks = nodes.map { $0.place?.isAsync == true ? 1 : 0 }
      if marks.contains(1) { $0.array("async", marks) }
    }
    return line
  }
}
