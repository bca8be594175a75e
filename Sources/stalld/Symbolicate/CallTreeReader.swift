import StallMonitor
import StallReport

/// Reads the samples that a line carries for the tool that adds names (`call_tree`), and merges them by name.
///
/// Any program may have written the line: nothing in it is trusted, and an inconsistent tree is
/// ignored.
struct CallTreeReader {
  let text: JSONText
  /// The functions at a place, innermost first; one frame without a name if they are not known.
  let frames: (StackFrame) -> [StackFrame]

  private static let nodeLimit = 2048
  private static let moduleLimit = 256
  private static let sampleLimit = 1_000_000_000

  func tree(_ value: JSONText.Value) -> CallTree? {
    guard let samples = count(value["samples"]), let weight = nanoseconds(value["weight_ms"]), weight > 0,
      let modules = value["modules"]?.elements, modules.count <= Self.moduleLimit, let nodes = value["nodes"],
      let parents = column("parent", of: nodes, text.integer), let places = column("module", of: nodes, text.integer),
      let offsets = column("offset", of: nodes, offset), let counts = column("samples", of: nodes, count),
      let weights = column("weight_ms", of: nodes, nanoseconds), let marks = asyncMarks(of: nodes, parents.count),
      Set([
        parents.count, places.count, offsets.count, counts.count, weights.count, marks.count,
      ]).count == 1
    else { return nil }
    var tree = CallTree(samples: samples, weight: weight)
    // Where each node is in the tree, if there was space, and how much of its samples and its time is not in a call yet.
    var numbers: [Int?] = []
    var left: [Int] = []
    var leftAtAll = samples
    var leftWeight: [UInt64] = []
    var leftWeightAtAll = weight
    for index in parents.indices {
      let (parent, module) = (parents[index], places[index])
      guard parent >= -1, parent < index, module >= -1, module < modules.count else { return nil }
      if parent >= 0 { left[parent] -= counts[index] } else { leftAtAll -= counts[index] }
      guard leftAtAll >= 0, parent < 0 || left[parent] >= 0 else { return nil }
      left.append(counts[index])
      // Times are rounded, so calls may come to a little more than their caller: no more than that counts.
      let weight = min(weights[index], parent >= 0 ? leftWeight[parent] : leftWeightAtAll)
      if parent >= 0 { leftWeight[parent] -= weight } else { leftWeightAtAll -= weight }
      leftWeight.append(weight)
      let caller = parent >= 0 ? numbers[parent] : nil
      guard parent < 0 || caller != nil else {
        numbers.append(nil)
        continue
      }
      if module < 0 {
        tree.cut(under: caller, weight: weight, samples: counts[index])
        numbers.append(nil)
      } else {
        var place = StackFrame(
          module: text.string(modules[module]["module"]), buildID: text.string(modules[module]["build_id"]),
          offset: offsets[index])
        place.isAsync = marks[index] == 1
        numbers.append(tree.add(frames(place), under: caller, weight: weight, samples: counts[index]))
      }
    }
    return tree
  }

  private func column<Value>(
    _ key: String, of nodes: JSONText.Value, _ read: (JSONText.Value?) -> Value?
  ) -> [Value]? {
    guard let elements = nodes[key]?.elements, elements.count <= Self.nodeLimit else { return nil }
    let values = elements.compactMap(read)
    return values.count == elements.count ? values : nil
  }

  /// Which nodes wait for asynchronous calls: 1 of these.
  ///
  /// Zeros where the line has no such column.
  private func asyncMarks(of nodes: JSONText.Value, _ count: Int) -> [Int]? {
    guard nodes["async"] != nil else { return Array(repeating: 0, count: count) }
    return column("async", of: nodes) { text.integer($0).flatMap { 0...1 ~= $0 ? $0 : nil } }
  }

  private func count(_ value: JSONText.Value?) -> Int? {
    text.integer(value).flatMap { (1...Self.sampleLimit).contains($0) ? $0 : nil }
  }

  private func offset(_ value: JSONText.Value?) -> UInt64? {
    text.string(value).flatMap { Hexadecimal.number($0) }
  }

  private func nanoseconds(_ value: JSONText.Value?) -> UInt64? {
    guard case .literal(let range) = value, let number = Double(String(decoding: text.bytes[range], as: UTF8.self)),
      (0...1e12).contains(number)
    else { return nil }
    return UInt64((number * 1000).rounded()) * 1000
  }
}
