import CZlib
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

  // Unchecked because of libz's handle, which only the owner of the lock uses.
  private struct State: @unchecked Sendable {
    var handle: gzFile?
    var inputs: InputFiles
    var name = ""
    var line = 1
    /// The beginning of a line whose end was not read yet.
    var rest: [UInt8] = []
    /// In the midst of a line that is too long.
    var isInLongLine = false
    /// Why the file ends before its end.
    var problem: String?
    /// The file's failure has been noted.
    var hasFailed = false

    init(_ inputs: InputFiles) { self.inputs = inputs }
  }

  private let state: Mutex<State>

  init(_ inputs: InputFiles) { state = Mutex(State(inputs)) }

  /// Puts the next lines into a buffer of twice ``longestLine``; nil at the end of the last file.
  func next(into buffer: UnsafeMutableBufferPointer<UInt8>) -> Block? {
    state.withLock { state in
      while true {
        if state.handle == nil, !open(&state) { return nil }
        if let block = read(into: buffer, &state) { return block }
        gzclose_r(state.handle)
        state.handle = nil
      }
    }
  }

  /// The files, with what could not be read of them.
  var inputs: InputFiles { state.withLock(\.inputs) }

  private func open(_ state: inout State) -> Bool {
    while let input = state.inputs.open() {
      guard let handle = gzdopen(input.descriptor, "rb") else {
        close(input.descriptor)
        state.inputs.fail(input.name, InputAdvice.reason(ENOMEM))
        continue
      }
      gzbuffer(handle, 256 << 10)
      state.handle = handle
      state.name = input.name
      state.line = 1
      state.isInLongLine = false
      state.problem = nil
      state.hasFailed = false
      state.rest = []
      return true
    }
    return false
  }

  /// Nil at the end of the file.
  private func read(into buffer: UnsafeMutableBufferPointer<UInt8>, _ state: inout State) -> Block? {
    guard let base = buffer.baseAddress else { return nil }
    while true {
      _ = UnsafeMutableBufferPointer(rebasing: buffer[..<state.rest.count]).update(from: state.rest)
      let held = state.rest.count
      let count = Int(gzread(state.handle, base + held, UInt32(buffer.count - held)))
      // Since version 1.3.2, libz forgets with the next read that a file was cut.
      if state.problem == nil { state.problem = problem(of: state.handle) }
      if count <= 0 {
        noteFailure(&state)
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
      guard let last = bytes.lastIndex(of: 0x0a) else {
        state.rest = Array(bytes)
        guard bytes.count > Self.longestLine else { continue }
        state.rest = []
        state.isInLongLine = true
        return Block(
          name: state.name, file: state.inputs.opened, firstLine: state.line, count: 0, isLongLine: true)
      }
      state.rest = Array(bytes[(last + 1)...])
      return block(base, last + 1, &state)
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

  /// Why a file could not be read to its end; nil if libz has met nothing yet.
  private func problem(of handle: gzFile?) -> String? {
    var number: Int32 = 0
    let text = gzerror(handle, &number)
    guard number != Z_OK, number != Z_STREAM_END else { return nil }
    if number == Z_ERRNO { return String(cString: strerror(errno)) }
    // libz names the file by its descriptor.
    let words = text.map { String(cString: $0) }?.replacing(#/^<fd:\d+>: /#, with: "") ?? ""
    return words.isEmpty ? "damaged" : words
  }

  /// What was unpacked before an error has been given; a file that gzip did not finish is such a one.
  private func noteFailure(_ state: inout State) {
    guard let problem = state.problem, !state.hasFailed else { return }
    state.hasFailed = true
    state.inputs.fail(state.name, "only \(state.line - 1) lines could be read: \(problem)")
  }
}
