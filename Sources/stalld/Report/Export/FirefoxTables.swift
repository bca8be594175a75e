/// The tables that all threads of a Firefox profile share: texts, modules, functions, frames and stacks.
struct FirefoxTables {
  private let summary: ReportSummary
  private var texts: [String: Int] = [:]
  private(set) var textList: [String] = []
  private var libraries: [UInt64: Int] = [:]
  private(set) var libraryList: [(path: String, buildID: String)] = []
  private var functions: [[Int]: Int] = [:]
  /// Name, resource and source; -1 for none.
  private(set) var functionList: [[Int]] = []
  private var sources: [Int: Int] = [:]
  private(set) var sourceList: [Int] = []
  private var frames: [FrameKey: Int] = [:]
  /// Function, line, address, inline depth, category; -1 for none.
  private(set) var frameList: [[Int]] = []
  private var nodes: [UInt64: Int] = [:]
  /// Frame, and the caller's node or -1.
  private(set) var nodeList: [(frame: Int, prefix: Int)] = []
  private var stacks: [UInt64: Int] = [:]

  private struct FrameKey: Hashable {
    var frame: ReportFrame
    var depth: Int
    var category: Int
  }

  init(_ summary: ReportSummary) { self.summary = summary }

  mutating func text(_ text: String) -> Int {
    if let known = texts[text] { return known }
    texts[text] = textList.count
    textList.append(text)
    return textList.count - 1
  }

  /// The node of a stack, whose outermost frame has the cause's category; the others inherit it.
  mutating func stack(_ stack: UInt32, category: Int) -> Int {
    let key = UInt64(stack) << 8 | UInt64(category)
    if let known = stacks[key] { return known }
    let innermostFirst = summary.frames(of: summary.stacks[Int(stack)])
    var prefix = -1
    var depth = 0
    for (place, frame) in innermostFirst.enumerated().reversed() {
      // What is inlined into a frame has its address, and counts up from it.
      depth = frame.isInlined ? depth + 1 : 0
      let address = frame.isInlined ? innermostFirst[place...].first { !$0.isInlined } : frame
      prefix = node(self.frame(frame, at: address, depth: depth, category: prefix < 0 ? category : -1), prefix)
    }
    stacks[key] = prefix
    return prefix
  }

  /// The node of a stall without a stack.
  mutating func noStack(category: Int) -> Int {
    node(frame(ReportFrame(), at: nil, depth: 0, category: category), -1)
  }

  private mutating func node(_ frame: Int, _ prefix: Int) -> Int {
    let key = UInt64(frame) << 32 | UInt64(prefix + 1)
    if let known = nodes[key] { return known }
    nodes[key] = nodeList.count
    nodeList.append((frame, prefix))
    return nodeList.count - 1
  }

  private mutating func frame(_ frame: ReportFrame, at outer: ReportFrame?, depth: Int, category: Int) -> Int {
    let key = FrameKey(frame: frame, depth: depth, category: category)
    if let known = frames[key] { return known }
    let name = frame == ReportFrame() ? "(no stack)" : summary.name(of: frame)
    let resource = library(frame)
    let source = frame.file == 0 ? -1 : source(text(summary.text(frame.file)))
    let function = [text(name), resource, source]
    let number = functions[function, default: functionList.count]
    if functions.updateValue(number, forKey: function) == nil { functionList.append(function) }
    frames[key] = frameList.count
    let address = resource < 0 ? -1 : Int(exactly: outer?.offset ?? .max) ?? -1
    frameList.append([number, frame.line == 0 ? -1 : Int(frame.line), address, depth, category])
    return frameList.count - 1
  }

  private mutating func source(_ name: Int) -> Int {
    if let known = sources[name] { return known }
    sources[name] = sourceList.count
    sourceList.append(name)
    return sourceList.count - 1
  }

  private mutating func library(_ frame: ReportFrame) -> Int {
    guard frame.module != 0 else { return -1 }
    let key = UInt64(frame.module) << 32 | UInt64(frame.buildID)
    if let known = libraries[key] { return known }
    libraries[key] = libraryList.count
    libraryList.append((summary.text(frame.module), summary.text(frame.buildID)))
    return libraryList.count - 1
  }
}
