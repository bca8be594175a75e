/// Which frames a line that is too long does without.
///
/// Two inner frames stay for each outer one: what blocked is at the inner end, what asked for it at the outer. The responsible function's
/// stays in any case.
package enum StackTrim {
  /// The longest line, with its newline: below rsyslog's default of 8096 bytes, the smallest of all shippers.
  package static let longestLine = 8000

  /// What a list of frames takes: their members, braces and commas.
  package static func size(of frames: [Int]) -> Int { frames.reduce(0) { $0 + $1 + 3 } }

  /// The frames to take out, so that the rest takes at most `room` bytes: from the middle, but not the one to keep.
  package static func omitted(of frames: [Int], room: Int, keeping kept: Int? = nil) -> RangeSet<Int> {
    let gap = middle(of: frames, room: room)
    guard let kept, gap.contains(kept), frames[kept] + 3 <= room else { return RangeSet(gap) }
    var others = frames
    others[kept] = -3
    var omitted = RangeSet(middle(of: others, room: room - frames[kept] - 3))
    omitted.remove(contentsOf: kept..<(kept + 1))
    return omitted
  }

  private static func middle(of frames: [Int], room: Int) -> Range<Int> {
    guard size(of: frames) > room else { return 0..<0 }
    var head = 0
    var tail = frames.count
    var left = room
    while head < tail {
      let takesTail = (head + frames.count - tail) % 3 == 2
      let index = takesTail ? tail - 1 : head
      left -= frames[index] + 3
      if left < 0 { break }
      if takesTail { tail -= 1 } else { head += 1 }
    }
    return head..<tail
  }
}
