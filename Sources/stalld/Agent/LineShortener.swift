import StallMonitor
import StallReport

/// Makes a report short enough for outputs, in one pass and without names: all samples give way first, then the last threads, then frames from the middle.
///
/// For lines that have been scanned (``LineScanner``): what is no report is left alone.
struct LineShortener {
  private let line: [UInt8]
  private var position = 0
  private var stack: Range<Int>?
  private var frames: [Range<Int>] = []
  private var threads: Range<Int>?
  private var threadItems: [Range<Int>] = []
  /// The member and a comma beside it.
  private var tree: Range<Int>?
  private var omitted: [String: Range<Int>] = [:]
  private var end = 0

  /// What two members more take at most.
  private static let spare = ",\"threads_omitted\":1000100000,\"frames_omitted\":1000100000".utf8.count

  /// The shorter line, with its newline; nil if it is no report, or is too long without frames.
  static func shorten(_ line: [UInt8]) -> [UInt8]? {
    var shortener = LineShortener(line: line)
    guard shortener.scan(), shortener.stack != nil else { return nil }
    return shortener.fit()
  }

  private init(line: [UInt8]) { self.line = line }

  // MARK: Where the parts are

  private mutating func scan() -> Bool {
    skipBlanks()
    guard byte == UInt8(ascii: "{") else { return false }
    position += 1
    while true {
      skipBlanks()
      guard byte == UInt8(ascii: "\"") else { break }
      let start = position
      skipString()
      let key = String(decoding: line[(start + 1)..<(position - 1)], as: UTF8.self)
      skipBlanks()
      guard byte == UInt8(ascii: ":") else { return false }
      position += 1
      skipBlanks()
      let value = position
      switch key {
      case "stack": frames = items()
      case "threads": threadItems = items()
      default: skipValue()
      }
      note(key, value..<position)
      skipBlanks()
      let isLast = byte != UInt8(ascii: ",")
      if key == "call_tree" {
        // With the comma behind it; the last member's is before it.
        let comma = isLast ? line[..<start].lastIndex(of: UInt8(ascii: ",")) : nil
        tree = (comma ?? start)..<(isLast ? position : position + 1)
      }
      if isLast { break }
      position += 1
    }
    end = position
    return byte == UInt8(ascii: "}")
  }

  private mutating func note(_ key: String, _ value: Range<Int>) {
    switch key {
    case "stack": stack = value
    case "threads": threads = value
    case "threads_omitted", "frames_omitted": omitted[key] = value
    default: break
    }
  }

  private var byte: UInt8 { position < line.count ? line[position] : 0 }

  private mutating func skipBlanks() {
    while position < line.count, line[position] <= 0x20 { position += 1 }
  }

  private mutating func skipString() {
    position += 1
    while position < line.count, line[position] != UInt8(ascii: "\"") {
      position += line[position] == UInt8(ascii: "\\") ? 2 : 1
    }
    position = min(position + 1, line.count)
  }

  /// Goes past one value: an object or array to its end, whatever is in it.
  private mutating func skipValue() {
    var depth = 0
    while position < line.count {
      switch line[position] {
      case UInt8(ascii: "\""): skipString()
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        depth += 1
        position += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        guard depth > 0 else { return }
        depth -= 1
        position += 1
      case UInt8(ascii: ","):
        guard depth > 0 else { return }
        position += 1
      default: position += 1
      }
      if depth == 0, position < line.count, [0x2c, 0x7d, 0x5d].contains(line[position]) { return }
    }
  }

  /// The elements of an array.
  private mutating func items() -> [Range<Int>] {
    guard byte == UInt8(ascii: "[") else {
      skipValue()
      return []
    }
    var items: [Range<Int>] = []
    position += 1
    while position < line.count {
      skipBlanks()
      if byte == UInt8(ascii: "]") { break }
      let start = position
      skipValue()
      items.append(start..<position)
      skipBlanks()
      guard byte == UInt8(ascii: ",") else { break }
      position += 1
    }
    position += 1
    return items
  }

  // MARK: What gives way

  private func fit() -> [UInt8]? {
    guard let stack else { return nil }
    var rest = line.count - stack.count - (threads?.count ?? 0) - (tree?.count ?? 0) + 4
    var edits = TextEdits()
    if let tree { edits.replace(tree, with: []) }
    let sizes = frames.map { $0.count - 2 }
    let threadSizes = threadItems.map { $0.count + 1 }
    let size = StackTrim.size(of: sizes)
    if rest + size + threadSizes.reduce(0, +) <= StackTrim.longestLine { return edits.apply(to: line) }
    rest += Self.spare
    // The loop's own stack has half in any case.
    var room = StackTrim.longestLine - rest - min(size, (StackTrim.longestLine - rest) / 2)
    let told =
      threadSizes.firstIndex {
        room -= $0
        return room < 0
      } ?? threadSizes.count
    let left = StackTrim.longestLine - rest - threadSizes.prefix(told).reduce(0, +)
    guard left >= 0 else { return nil }
    let gap = StackTrim.middle(of: sizes, room: left)
    var kept = frames
    kept.removeSubrange(gap)
    edits.replace(stack, with: list(kept))
    var additions: [UInt8] = []
    if let threads, told < threadItems.count {
      edits.replace(threads, with: list(Array(threadItems.prefix(told))))
      additions += count(threadItems.count - told, as: "threads_omitted", &edits)
    }
    if !gap.isEmpty { additions += count(gap.count, as: "frames_omitted", &edits) }
    if !additions.isEmpty { edits.insert(additions, at: end) }
    return edits.apply(to: line)
  }

  private func list(_ items: [Range<Int>]) -> [UInt8] {
    Array("[".utf8) + items.map { line[$0] }.joined(separator: [UInt8(ascii: ",")]) + Array("]".utf8)
  }

  /// Adds to a number of the line; what is to be inserted if the line does not have it.
  private func count(_ more: Int, as key: String, _ edits: inout TextEdits) -> [UInt8] {
    guard let before = omitted[key] else { return Array(",\"\(key)\":\(more)".utf8) }
    let old = Int(String(decoding: line[before], as: UTF8.self)) ?? 0
    edits.replace(before, with: Array(String(min(max(old, 0), 1_000_000_000) + more).utf8))
    return []
  }
}
