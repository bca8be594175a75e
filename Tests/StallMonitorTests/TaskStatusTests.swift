import StallCapture
import Testing

/// What is read from a process's or a thread's `stat` file.
struct TaskStatusTests {
  @Test("each value is the field that proc(5) numbers so")
  func numbersOfFields() throws {
    // Each field from 4 on has its number for its value; the name has what separates fields.
    let line = "7 (a) b (c) S " + (4...52).map { "\($0)" }.joined(separator: " ") + "\n"
    let status = try #require(Array(line.utf8).withUnsafeBytes { TaskStatus($0) })
    #expect(status.state == UInt8(ascii: "S"))
    #expect(status.minorFaults == 10)
    #expect(status.majorFaults == 12)
    #expect(status.startTicks == 22)
    #expect(status.startOfStack == 28)
    #expect(status.blockDelay == 42 * 10_000_000)
  }
}
