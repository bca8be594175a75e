import StallReport

/// The heaviest stacks of a page, made of frames that are there once.
struct PageStacks {
  /// Frames of all stacks together.
  private static let roomForFrames = 200_000
  private static let limit = 5000

  /// Name, file, line, module, 1 for the service's own, 1 for inlined or 2 for an async caller, short name; names, file and module
  /// are numbers of texts.
  private(set) var frames: [[Int]] = []
  /// Frames, the outermost first.
  private(set) var stacks: [[Int]] = []
  /// What folds in each stack: the first frame, how many, and the number of the text that says what they are of.
  private(set) var folds: [[[Int]]] = []
  /// Stacks that had no space.
  private(set) var omitted = 0
  private var numbers: [ReportFrame: Int] = [:]
  private var members = 0
  /// By the number of the summary's stack table.
  private var known: [UInt32: Int] = [:]

  static let none = -1
  static let others = -2

  /// Adds a weighted stack of the summary, with the responsible function of its stalls; the heaviest come first.
  mutating func add(
    _ stack: WeightedStack, culprit: String, _ summary: ReportSummary, _ texts: inout PageTexts
  ) {
    guard known[stack.frames] == nil else { return }
    let frames = summary.frames(of: stack)
    // A page that is full stays as it is, so that what is there is the heaviest.
    guard omitted == 0, stacks.count < Self.limit, members + frames.count <= Self.roomForFrames, !texts.isFull else {
      omitted += 1
      return
    }
    known[stack.frames] = stacks.count
    members += frames.count
    stacks.append(frames.reversed().map { number(of: $0, summary, &texts) })
    let folded = FoldedFrames.inside(
      frames.map { (summary.text($0.symbol), summary.text($0.module)) }, responsible: culprit)
    folds.append(
      folded.reversed().map { fold in
        [frames.count - fold.range.upperBound, fold.range.count, texts.number(of: fold.origin)]
      })
  }

  /// The number of a stack that was added, ``others`` if it had no space.
  func number(of stack: WeightedStack) -> Int { known[stack.frames] ?? Self.others }

  /// The number of a frame, which is added if it is new.
  mutating func number(of frame: ReportFrame, _ summary: ReportSummary, _ texts: inout PageTexts) -> Int {
    var frame = frame
    // Of no interest here: two addresses in one line are one frame.
    if frame.symbol != 0 { frame.offset = nil }
    if let number = numbers[frame] { return number }
    let number = add(
      name: summary.name(of: frame), symbol: summary.text(frame.symbol), file: summary.text(frame.file),
      line: Int(frame.line),
      module: summary.text(frame.module), isInlined: frame.isInlined,
      isAsync: frame.isAsync, &texts)
    numbers[frame] = number
    return number
  }

  /// Adds a frame.
  mutating func add(
    name: String, symbol: String, file: String, line: Int, module: String, isInlined: Bool, isAsync: Bool,
    _ texts: inout PageTexts
  ) -> Int {
    let isOwn = FrameColor.isOwn(symbol: symbol, module: module)
    let short = symbol.isEmpty || texts.isFull ? name : ShortSymbol.shorten(name)
    frames.append([
      texts.number(of: name), texts.number(of: file), line, texts.number(of: module), isOwn ? 1 : 0,
      isInlined ? 1 : isAsync ? 2 : 0, texts.number(of: short),
    ])
    return frames.count - 1
  }
}
