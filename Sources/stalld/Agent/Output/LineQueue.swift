/// Lines that wait for one output, first in, first out, in pieces as they came.
///
/// Each call takes as long as it has pieces to move, and none releases a line: two threads share a queue, and the one that waits for its
/// lock waits for a processor as well if the other one has lost it.
struct LineQueue {
  /// Lines that came together.
  struct Piece: Sendable {
    let lines: ArraySlice<ReportLine>
    let bytes: Int

    /// What is written at once must not be much more than it may be, so a piece is small.
    static func pieces(of lines: ArraySlice<ReportLine>) -> [Piece] {
      var pieces: [Piece] = []
      var (start, bytes) = (lines.startIndex, 0)
      for (index, line) in zip(lines.indices, lines) {
        if index > start, index - start == 64 || bytes + line.bytes.count > 64 << 10 {
          pieces.append(Piece(lines: lines[start..<index], bytes: bytes))
          (start, bytes) = (index, 0)
        }
        bytes += line.bytes.count
      }
      if start < lines.endIndex { pieces.append(Piece(lines: lines[start...], bytes: bytes)) }
      return pieces
    }
  }

  // Those before `head` are gone already; moving the others up for each would be slow in a long queue.
  private var pieces: [Piece?] = []
  private var head = 0
  private(set) var count = 0
  /// The bytes of all lines.
  private(set) var bytes = 0

  var isEmpty: Bool { count == 0 }
  /// All pieces, oldest first.
  var all: [Piece] { pieces[head...].compactMap { $0 } }

  mutating func append(_ piece: Piece) {
    pieces.append(piece)
    count += piece.lines.count
    bytes += piece.bytes
  }

  /// Takes the oldest piece; nil if there is none.
  mutating func takeFirst() -> Piece? {
    guard head < pieces.count, let piece = pieces[head].take() else { return nil }
    head += 1
    count -= piece.lines.count
    bytes -= piece.bytes
    if head == pieces.count {
      pieces.removeAll(keepingCapacity: true)
      head = 0
    } else if head >= 1024 && head * 2 > pieces.count {
      pieces.removeFirst(head)
      head = 0
    }
    return piece
  }

  /// Takes the oldest pieces: at most so many lines and bytes, but at least one piece if there is any.
  mutating func takeFirst(lines: Int, bytes: Int) -> [Piece] {
    var taken: [Piece] = []
    var rest = (lines: lines, bytes: bytes)
    while head < pieces.count, let next = pieces[head],
      taken.isEmpty || next.lines.count <= rest.lines && next.bytes <= rest.bytes
    {
      rest = (rest.lines - next.lines.count, rest.bytes - next.bytes)
      if let piece = takeFirst() { taken.append(piece) }
    }
    return taken
  }
}
