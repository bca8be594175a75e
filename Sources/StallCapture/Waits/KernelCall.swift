/// A row of the kernel's list of system calls (``SystemCallNumbers``): a name, and which arguments lead to files.
struct KernelCall: Equatable {
  var name: String
  /// The arguments that are paths, as bits: 1 is the first.
  var paths: UInt8 = 0
  /// The argument that is a descriptor.
  var descriptor: Int?

  /// The call of that number, or nil if the kernel's list has none.
  init?(_ number: Int64) {
    guard var fields = Self.fields(behind: number), let name = fields.field() else { return nil }
    self.name = String(decoding: name, as: UTF8.self)
    let arePaths = fields.field()?.first == UInt8(ascii: "p")
    while let argument = fields.number() {
      if arePaths { paths |= 1 << UInt8(argument) } else { descriptor = Int(argument) }
    }
  }

  /// Finds the row of a number by bisection: the rows are in their numbers' order.
  private static func fields(behind number: Int64) -> FieldScanner? {
    let text = SystemCallNumbers.table
    let table = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    let newline = UInt8(ascii: "\n")
    // Both are where rows begin.
    var (low, high) = (0, table.count)
    while low < high {
      var start = low + (high - low) / 2
      while start > low, table[start - 1] != newline { start -= 1 }
      var fields = FieldScanner(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(table)[start...]))
      guard let found = fields.number() else { return nil }
      if found == number { return fields }
      if found > number {
        high = start
      } else {
        low = table[start...].firstIndex(of: newline).map { $0 + 1 } ?? table.count
      }
    }
    return nil
  }
}
