/// Times and sizes as people read them.
enum QuantityText {
  /// `0.4 ms`, `619 ms`, `2.41 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
  static func short(milliseconds: Double) -> String {
    guard milliseconds.isFinite, milliseconds < 1e15 else { return "?" }
    switch milliseconds {
    case ..<9.95: return "\((milliseconds * 10).rounded() / 10) ms"
    case ..<999.5: return "\(Int(milliseconds.rounded())) ms"
    case ..<9_995: return "\(hundredths((milliseconds / 10).rounded())) s"
    case ..<59_950: return "\((milliseconds / 100).rounded() / 10) s"
    default: break
    }
    let seconds = Int((milliseconds / 1000).rounded())
    if seconds < 3600 { return "\(seconds / 60) min \(seconds % 60) s" }
    if seconds < 86_400 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
    return "\(seconds / 86_400) d \(seconds / 3600 % 24) h"
  }

  private static func hundredths(_ value: Double) -> String {
    let number = Int(value)
    return "\(number / 100).\(number / 10 % 10)\(number % 10)"
  }

  /// `1.5 MiB`.
  static func bytes(_ count: Int) -> String {
    var value = Double(count)
    for unit in ["B", "KiB", "MiB", "GiB"] {
      if value < 1024 { return unit == "B" ? "\(count) B" : "\((value * 10).rounded() / 10) \(unit)" }
      value /= 1024
    }
    return "\((value * 10).rounded() / 10) TiB"
  }
}
