/// For how long tasks of this machine have had to wait for a processor, for storage or for memory, since it started.
///
/// The `some` totals of `/proc/pressure` (Documentation/accounting/psi.rst). Opened once; a kernel without them tells nothing.
struct PressureCounter: ~Copyable {
  private let processor: ProcFile?
  private let storage: ProcFile?
  private let memory: ProcFile?

  init() {
    processor = ProcFile("/proc/pressure/cpu")
    storage = ProcFile("/proc/pressure/io")
    memory = ProcFile("/proc/pressure/memory")
  }

  /// Times in nanoseconds; nil where the kernel does not tell.
  struct Totals: Equatable {
    var processor: UInt64?
    var storage: UInt64?
    var memory: UInt64?

    /// What was added since `earlier`.
    func since(_ earlier: Totals) -> Totals {
      func difference(_ now: UInt64?, _ before: UInt64?) -> UInt64? {
        guard let now, let before, now >= before else { return nil }
        return now - before
      }
      return Totals(
        processor: difference(processor, earlier.processor), storage: difference(storage, earlier.storage),
        memory: difference(memory, earlier.memory))
    }
  }

  /// About 6 us.
  borrowing func totals() -> Totals {
    Totals(
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
