/// Reading the samples that a line carries for the program that adds names (`call_tree`).
///
/// Any program may have written the line: nothing in it is trusted, and an inconsistent tree is ignored.
extension CallTree {
  private static let moduleLimit = 256
  fileprivate static let sampleLimit = 1_000_000_000

  /// Reads the tree, of frames without names; nil if it is none.
  package init?(_ text: JSONText, _ value: JSONText.Value?) {
    guard let value, let samples = text.count(value["samples"]), let weight = text.nanoseconds(value["weight_ms"]),
      weight > 0, let modules = value["modules"]?.elements, modules.count <= Self.moduleLimit,
      let columns = Columns(text, value["nodes"])
    else { return nil }
    self.init(samples: samples, weight: weight)
    // Where each node is in the tree, if there was space, and how much of its samples and its time is not in a call yet.
    var numbers: [Int?] = []
    var left: [Int] = []
    var leftAtAll = samples
    var leftWeight: [UInt64] = []
    var leftWeightAtAll = weight
    for index in columns.parents.indices {
      let (parent, module, count) = (columns.parents[index], columns.modules[index], columns.samples[index])
      guard parent >= -1, parent < index, module >= -1, module < modules.count else { return nil }
      if parent >= 0 { left[parent] -= count } else { leftAtAll -= count }
      guard leftAtAll >= 0, parent < 0 || left[parent] >= 0 else { return nil }
      left.append(count)
      // Times are rounded, so calls may come to a little more than their caller: no more than that counts.
      let weight = min(columns.weights[index], parent >= 0 ? leftWeight[parent] : leftWeightAtAll)
      if parent >= 0 { leftWeight[parent] -= weight } else { leftWeightAtAll -= weight }
      leftWeight.append(weight)
      let caller = parent >= 0 ? numbers[parent] : nil
      guard parent < 0 || caller != nil else {
        numbers.append(nil)
        continue
      }
      if module < 0 {
        cut(under: caller, weight: weight, samples: count)
        numbers.append(nil)
      } else {
        var place = StackFrame(
          module: text.string(modules[module]["module"]), buildID: text.string(modules[module]["build_id"]),
          offset: columns.offsets[index])
        place.isAsync = columns.marks[index] == 1
        numbers.append(add([place], under: caller, weight: weight, samples: count))
      }
    }
  }

  /// The columns of `call_tree.nodes`, all of one length.
  private struct Columns {
    var parents: [Int]
    var modules: [Int]
    var offsets: [UInt64]
    var samples: [Int]
    var weights: [UInt64]
    /// Which nodes wait for asynchronous calls: 1 of these; zeros where the line has no such column.
    var marks: [Int]

    init?(_ text: JSONText, _ nodes: JSONText.Value?) {
      func column<Value>(_ key: String, _ read: (JSONText.Value?) -> Value?) -> [Value]? {
        guard let elements = nodes?[key]?.elements, elements.count <= CallTree.nodeLimit else { return nil }
        let values = elements.compactMap(read)
        return values.count == elements.count ? values : nil
      }
      guard let parents = column("parent", text.integer), let modules = column("module", text.integer),
        let offsets = column("offset", { text.string($0).flatMap { Hexadecimal.number($0) } }),
        let samples = column("samples", text.count), let weights = column("weight_ms", text.nanoseconds),
        let marks = nodes?["async"] == nil
          ? Array(repeating: 0, count: parents.count)
          : column("async", { text.integer($0).flatMap { 0...1 ~= $0 ? $0 : nil } }),
        Set([parents.count, modules.count, offsets.count, samples.count, weights.count, marks.count]).count == 1
      else { return nil }
      (self.parents, self.modules, self.offsets) = (parents, modules, offsets)
      (self.samples, self.weights, self.marks) = (samples, weights, marks)
    }
  }
}

extension JSONText {
  /// A number of samples; nil for every other value.
  fileprivate func count(_ value: Value?) -> Int? {
    integer(value).flatMap { (1...CallTree.sampleLimit).contains($0) ? $0 : nil }
  }
}
