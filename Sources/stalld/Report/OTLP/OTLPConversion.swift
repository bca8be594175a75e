import ArgumentParser
import Glibc

/// Turns report lines into lines of OTLP, one by one and in their order.
struct OTLPConversion {
  /// Lines that are named one by one; the rest is only counted.
  private static let named = 10

  private var output: [UInt8] = []
  private var skipped = 0
  private(set) var converted = 0

  /// Converts files onto standard output.
  ///
  /// A line that is no report is skipped, counted and named. Throws an exit code if a file could not be read to its end.
  static func run(_ inputs: InputFiles) throws {
    var conversion = OTLPConversion()
    let blocks = LineBlocks(inputs)
    ReportReader.forEachLine(of: blocks) { line, place in conversion.take(line, place.file, place.number) }
    conversion.flush()
    let failures = blocks.inputs.failures
    for failure in failures { StandardError.say("report", "\(failure.file): \(failure.reason)") }
    if conversion.skipped > 0 {
      StandardError.say("report", "skipped \(conversion.skipped) lines that are not reports")
    }
    if !failures.isEmpty { throw ExitCode(1) }
  }

  private mutating func take(_ line: UnsafeBufferPointer<UInt8>?, _ file: String, _ number: Int) {
    // Blank lines are ignored.
    if let line, line.allSatisfy({ $0 <= 0x20 }) { return }
    guard let line else { return skip("longer than \(LineBlocks.longestLine) bytes", file, number) }
    do {
      output += try OTLPLine.convert(Array(line))
      converted += 1
      if output.count > 256 << 10 { flush() }
    } catch {
      skip(error.description, file, number)
    }
  }

  private mutating func skip(_ reason: String, _ file: String, _ number: Int) {
    skipped += 1
    if skipped <= Self.named { StandardError.say("report", "\(file), line \(number): \(reason)") }
  }

  private mutating func flush() {
    StandardOutput.writeOrExit("report", TerminalText.json(output))
    output.removeAll(keepingCapacity: true)
  }
}
