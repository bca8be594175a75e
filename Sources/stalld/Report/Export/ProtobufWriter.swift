/// Writes messages in the wire format of Protocol Buffers: numbers, texts, nested messages and packed numbers, which is all that pprof's has.
struct ProtobufWriter {
  private(set) var bytes: [UInt8] = []

  /// A number; 0 is what a reader takes one for that is not there.
  mutating func number(_ field: Int, _ value: some BinaryInteger) {
    guard value != 0 else { return }
    varint(UInt64(field) << 3)
    varint(UInt64(truncatingIfNeeded: value))
  }

  mutating func text(_ field: Int, _ value: String) { data(field, Array(value.utf8)) }

  mutating func message(_ field: Int, _ body: (inout ProtobufWriter) -> Void) {
    var inner = ProtobufWriter()
    body(&inner)
    data(field, inner.bytes)
  }

  mutating func packed(_ field: Int, _ values: [some BinaryInteger]) {
    guard !values.isEmpty else { return }
    var inner = ProtobufWriter()
    for value in values { inner.varint(UInt64(truncatingIfNeeded: value)) }
    data(field, inner.bytes)
  }

  private mutating func data(_ field: Int, _ data: [UInt8]) {
    varint(UInt64(field) << 3 | 2)
    varint(UInt64(data.count))
    bytes += data
  }

  private mutating func varint(_ value: UInt64) {
    var value = value
    while value >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: value) | 0x80)
      value >>= 7
    }
    bytes.append(UInt8(value))
  }
}
