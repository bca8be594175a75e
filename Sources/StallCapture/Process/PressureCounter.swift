import StallReport

/// For how long tasks of this machine have had to wait for a processor, for storage or for memory, since it started.
///
/// The `some` totals of `/proc/pressure` (Documentation/accounting/psi.rst). Opened once; without
/// them, there is no value.
package struct PressureCounter: ~Copyable {
  private let processor: ProcFile?
  private let storage: ProcFile?
  private let memory: ProcFile?

  package init() {
    processor = ProcFile("/proc/pressure/cpu")
    storage = ProcFile("/proc/pressure/io")
    memory = ProcFile("/proc/pressure/memory")
  }

  /// About 6 us.
  package borrowing func totals() -> PressureTotals {
    PressureTotals(
      processor: processor?.parse { Self.someTotal(in: $0) }, storage: storage?.parse { Self.someTotal(in: $0) },
      memory: memory?.parse { Self.someTotal(in: $0) })
  }

  /// The `total=` of the line that begins with `some`, from microseconds.
  static func someTotal(in text: UnsafeRawBufferPointer) -> UInt64? {
    guard text.starts(with: "some ".utf8), let end = text.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
    let line = UnsafeRawBufferPointer(rebasing: text[..<end])
    guard let equals = line.lastIndex(of: UInt8(ascii: "=")), line[..<equals].suffix(5).elementsEqual("total".utf8)
    else { return nil }
    return FieldScanner.number(UnsafeRawBufferPointer(rebasing: line[(equals + 1)...])).map {
      UInt64(bitPattern: $0) &* 1000
    }
  }
}
