import StallMonitor
import StallReport

/// Makes a report short enough for outputs, in one pass and without names: it removes all samples
/// first, then the last threads, then frames from the middle.
///
/// For lines that have been scanned (``LineScanner``): what is no report is left alone.
struct LineShortener {
  private let line: [UInt8]
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
    line.withUnsafeBufferPointer { bytes in
      var json = JSONScanner(bytes)
      return (try? read(&json)) ?? false
    }
  }

  private mutating func read(_ json: inout JSONScanner) throws(JSONScanner.Fault) -> Bool {
    json.skipBlanks()
    guard json.current == UInt8(ascii: "{"), try json.beginObject() else { return false }
    var isLast: Bool
    repeat {
      let start = json.position
      let key = try json.key()
      let value = try json.beginValue()
      if json.is(key, "stack") {
        frames = try items(&json)
      } else if json.is(key, "threads") {
        threadItems = try items(&json)
      } else {
        try json.skipValue()
      }
      let range = value..<json.position
      note(json, key, range)
      json.skipBlanks()
      end = json.position
      isLast = try !json.nextMember()
      if json.is(key, "call_tree") {
        // With the comma behind it; the last member's is before it.
        let comma = isLast ? line[..<start].lastIndex(of: UInt8(ascii: ",")) : nil
        tree = (comma ?? start)..<(isLast ? end : end + 1)
      }
    } while !isLast
    return true
  }

  private mutating func note(_ json: JSONScanner, _ key: JSONScanner.Text, _ value: Range<Int>) {
    if json.is(key, "stack") { stack = value }
    if json.is(key, "threads") { threads = value }
    for name in ["threads_omitted", "frames_omitted"] as [StaticString] where json.is(key, name) {
      omitted["\(name)"] = value
    }
  }

  /// The elements of the array that a scanner is at; none of a value of another kind.
  private func items(_ json: inout JSONScanner) throws(JSONScanner.Fault) -> [Range<Int>] {
    var items: [Range<Int>] = []
    guard json.current == UInt8(ascii: "[") else {
      try json.skipValue()
      return []
    }
    guard try json.beginArray() else { return [] }
    repeat { items.append(try json.skipValue()) } while try json.nextElement()
    return items
  }

  // MARK: What is omitted

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
    let threadCount =
      threadSizes.firstIndex {
        room -= $0
        return room < 0
      } ?? threadSizes.count
    let left = StackTrim.longestLine - rest - threadSizes.prefix(threadCount).reduce(0, +)
    guard left >= 0 else { return nil }
    var kept = frames
    kept.removeSubranges(StackTrim.omitted(of: sizes, room: left))
    edits.replace(stack, with: list(kept))
    var additions: [UInt8] = []
    if let threads, threadCount < threadItems.count {
      edits.replace(threads, with: list(Array(threadItems.prefix(threadCount))))
      additions += count(threadItems.count - threadCount, as: "threads_omitted", &edits)
    }
    if kept.count < frames.count {
      additions += count(frames.count - kept.count, as: "frames_omitted", &edits)
    }
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
