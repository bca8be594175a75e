import Glibc
import Synchronization

/// Hands out files in pieces of whole lines, to several threads; files that gzip made are unpacked.
final class LineBlocks: Sendable {
  /// Where a piece lies that was put into a caller's buffer.
  struct Block {
    /// The file's name, and its place in the order of reading.
    var name: String
    var file: Int
    /// The number of its first line, from 1.
    var firstLine: Int
    /// Its bytes: whole lines.
    var count: Int
    /// It is a line that is too long, and is not given.
    var isLongLine = false
  }

  /// Much more than a report can have; a buffer is twice as long.
  static let longestLine = 512 << 10

  // Unchecked because of the open file, which only the owner of the lock uses.
  private struct State: @unchecked Sendable {
    var file: UnpackedFile?
    var inputs: InputFiles
    var name = ""
    var line = 1
    /// The beginning of a line whose end was not read yet; NULs before a line are no part of it.
    var rest: [UInt8] = []
    var endsWithNULs = false
    /// In the midst of a line that is too long.
    var isInLongLine = false
    /// There is no more to read, or no more can be read.
    var hasEnded = false

    init(_ inputs: InputFiles) { self.inputs = inputs }
  }

  private let state: Mutex<State>

  init(_ inputs: InputFiles) { state = Mutex(State(inputs)) }

  /// Puts the next lines into a buffer of twice ``longestLine``; nil at the end of the last file.
  func next(into buffer: UnsafeMutableBufferPointer<UInt8>) -> Block? {
    state.withLock { state in
      while true {
        if state.file == nil, !open(&state) { return nil }
        if let block = read(into: buffer, &state) { return block }
        state.file = nil
      }
    }
  }

  /// The files, with what could not be read of them.
  var inputs: InputFiles { state.withLock(\.inputs) }

  private func open(_ state: inout State) -> Bool {
    guard let input = state.inputs.open() else { return false }
    let inputs = state.inputs
    state = State(inputs)
    state.file = UnpackedFile(input)
    state.name = input.name
    return true
  }

  /// Nil at the end of the file.
  private func read(into buffer: UnsafeMutableBufferPointer<UInt8>, _ state: inout State) -> Block? {
    guard let base = buffer.baseAddress else { return nil }
    while true {
      _ = UnsafeMutableBufferPointer(rebasing: buffer[..<state.rest.count]).update(from: state.rest)
      let held = state.rest.count
      let count = fill(UnsafeMutableBufferPointer(rebasing: buffer[held...]), &state)
      if count == 0 {
        state.rest = []
        guard held > 0, !state.isInLongLine else { return nil }
        return block(base, held, &state)
      }
      var bytes = UnsafeMutableBufferPointer(rebasing: buffer[..<(held + count)])
      if state.isInLongLine {
        guard let newline = bytes.firstIndex(of: 0x0a) else { continue }
        state.isInLongLine = false
        state.line += 1
        let left = bytes.count - newline - 1
        memmove(base, base + newline + 1, left)
        bytes = UnsafeMutableBufferPointer(rebasing: buffer[..<left])
      }
      let end = bytes.lastIndex(of: 0x0a).map { $0 + 1 } ?? 0
      state.rest = Array(bytes[end...].drop { $0 == 0 })
      state.endsWithNULs = end < bytes.count && state.rest.isEmpty
      if end > 0 { return block(base, end, &state) }
      guard state.rest.count > Self.longestLine else { continue }
      state.rest = []
      state.isInLongLine = true
      return Block(
        name: state.name, file: state.inputs.opened, firstLine: state.line, count: 0, isLongLine: true)
    }
  }

  /// Reads more of the file; 0 if that is all that can be read, with its failure noted.
  private func fill(_ buffer: UnsafeMutableBufferPointer<UInt8>, _ state: inout State) -> Int {
    guard let file = state.file, !state.hasEnded else { return 0 }
    do throws(InputFiles.Input.Fault) {
      let count = try file.read(into: buffer)
      if count == 0, state.endsWithNULs { throw .nulBytes }
      state.hasEnded = count == 0
      return count
    } catch {
      state.hasEnded = true
      state.inputs.fail(state.name, "only \(state.line - 1) lines could be read: \(error)")
      return 0
    }
  }

  private func block(_ base: UnsafePointer<UInt8>, _ count: Int, _ state: inout State) -> Block {
    let block = Block(name: state.name, file: state.inputs.opened, firstLine: state.line, count: count)
    var position = base
    while let newline = memchr(position, 0x0a, base + count - position) {
      state.line += 1
      position = UnsafePointer(newline.assumingMemoryBound(to: UInt8.self)) + 1
    }
    return block
  }
}
