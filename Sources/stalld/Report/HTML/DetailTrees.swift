import DescriptorIO
import Glibc
import StallMonitor
import StallReport

/// The call trees of stalls, from the detail files that a monitor (`ID.json`) or the agent (`ID.USER.json`) wrote.
final class DetailTrees {
  struct Node {
    /// The caller's place in the list, -1 of a root.
    var parent: Int
    var milliseconds: Double
    var symbol: String
    var file: String
    var line: Int
    var module: String
    var isInlined: Bool
    var isAsync: Bool
    /// The symbol, or what there is instead.
    var name: String
  }

  private static let fileLimit = 4 << 20
  private static let nodeLimit = 20_000

  let directory: String
  private var nodes = 0
  private var failures: [(name: String, error: SystemError)] = []
  /// By the first 32 characters; an id that two users have used is no one's.
  private lazy var names = Dictionary(grouping: Self.names(in: directory)) { String($0.prefix(32)) }

  init(directory: String) { self.directory = directory }

  /// Which files could not be read, and why; nil if all could.
  var unread: String? {
    guard let first = failures.first else { return nil }
    let more = failures.count > 1 ? ", and \(failures.count - 1) more could not be read" : ""
    return "\(directory)/\(first.name): \(first.error)\(more); the page lacks their call trees"
  }

  /// Whether there is no space for more trees.
  var isFull: Bool { nodes >= Self.nodeLimit }

  /// The tree of a stall; nil if there is no file of it, or the file has no tree.
  func tree(of id: String) -> [Node]? {
    guard let name = names[id], name.count == 1, let bytes = contents(of: name[0]),
      let text = try? JSONText(bytes),
      text.string(text.root["stall"]?["id"]) == id, let elements = text.root["tree"]?.elements, !elements.isEmpty,
      elements.count <= Self.nodeLimit - nodes
    else { return nil }
    var result: [Node] = []
    for (place, element) in elements.enumerated() {
      let parent = text.integer(element["parent"]) ?? -1
      guard (-1..<place).contains(parent), let milliseconds = text.weight(element["weight_ms"]) else { return nil }
      let (symbol, module) = (text.string(element["symbol"]) ?? "", text.string(element["module"]) ?? "")
      let bare = module.lastPathPart ?? "unknown module"
      result.append(
        Node(
          parent: parent, milliseconds: milliseconds, symbol: symbol, file: text.string(element["file"]) ?? "",
          line: max(0, text.integer(element["line"]) ?? 0), module: module, isInlined: text.isTrue(element["inlined"]),
          isAsync: text.isTrue(element["async"]),
          name: symbol.isEmpty ? bare + (text.string(element["offset"]).map { "+" + $0 } ?? "") : symbol))
    }
    nodes += result.count
    return result
  }

  /// What the nodes that fold are of, such as LoopEngine; empty texts for nodes that stay.
  ///
  /// A run loop's node folds if the service's own code is below it.
  static func origins(of nodes: [Node]) -> [String] {
    let rules = nodes.map { FoldRule.rule(symbol: $0.symbol, module: $0.module) }
    var isAboveOwn = [Bool](repeating: false, count: nodes.count)
    for (place, node) in nodes.enumerated().reversed() where node.parent >= 0 {
      let isOwn = rules[place] == nil && FrameColor.isOwn(symbol: node.symbol, module: node.module)
      if isOwn || isAboveOwn[place] { isAboveOwn[node.parent] = true }
    }
    return zip(rules, isAboveOwn).map { rule, isAboveOwn in
      rule.flatMap { isAboveOwn || $0.foldsCallees ? $0.name : nil } ?? ""
    }
  }

  private static func names(in directory: String) -> [String] {
    guard let folder = opendir(directory) else { return [] }
    defer { closedir(folder) }
    var names: [String] = []
    while let entry = readdir(folder) {
      let name = entry.name
      if name.hasSuffix(".json") { names.append(name) }
    }
    return names
  }

  private func contents(of name: String) -> [UInt8]? {
    let descriptor = open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      // The agent has removed it since.
      if errno != ENOENT { failures.append((name, SystemError(code: errno))) }
      return nil
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.fileLimit else {
      return nil
    }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    var position = 0
    while position < bytes.count {
      let count = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + position, $0.count - position) }
      guard count > 0 else {
        if count < 0 { failures.append((name, SystemError(code: errno))) }
        return nil
      }
      position += count
    }
    return bytes
  }
}

extension JSONText {
  /// A number that is no less than 0; nil for every other value.
  fileprivate func weight(_ value: Value?) -> Double? {
    guard case .literal(let range) = value else { return nil }
    return Double(String(decoding: bytes[range], as: UTF8.self)).flatMap { $0.isFinite && $0 >= 0 ? $0 : nil }
  }
}
