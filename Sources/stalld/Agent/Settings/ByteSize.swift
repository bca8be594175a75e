import StallReport

/// Sizes as people write them: `64MiB`, `1.5GB`.
enum ByteSize {
  private static let units: [(name: String, bytes: Int)] = [
    ("TiB", 1 << 40), ("TB", 1_000_000_000_000), ("GiB", 1 << 30), ("GB", 1_000_000_000), ("MiB", 1 << 20),
    ("MB", 1_000_000), ("KiB", 1 << 10), ("kB", 1000), ("KB", 1000), ("B", 1),
  ]

  /// Nil if the text is no size: each number needs a unit, also 0.
  static func parse(_ text: String) -> Int? {
    guard let (number, unit) = QuantityNotation.split(text), let bytes = units.first(where: { $0.name == unit })?.bytes
    else {
      return nil
    }
    let product = number * Double(bytes)
    // A fraction of a byte is a slip.
    guard product < 9e18, product == product.rounded() else { return nil }
    return Int(product)
  }

  /// In the largest unit that needs no fraction.
  static func text(_ size: Int) -> String {
    let unit = size == 0 ? nil : units.first { $0.name.hasSuffix("iB") && size % $0.bytes == 0 }
    return unit.map { "\(size / $0.bytes)\($0.name)" } ?? "\(size)B"
  }
}
