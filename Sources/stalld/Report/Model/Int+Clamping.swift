extension Int {
  /// The nearest whole number; the limit for a number beyond the range of `Int`, and 0 for NaN.
  init(clamping value: Double) {
    self = Int(exactly: value.rounded()) ?? (value > 0 ? .max : value < 0 ? .min : 0)
  }
}
