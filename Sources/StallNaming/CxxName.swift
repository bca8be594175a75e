/// The beginning of a mangled name of C++: enough to say which library defines it.
///
/// Format: the Itanium C++ ABI, 5.1.
struct CxxName {
  /// Whether it is one of the standard library's, or of namespaces that this is made of.
  let isOfStandardLibrary: Bool
  /// Whether it may be one of Swift's runtime.
  ///
  /// Other programs have names that begin with `swift`, too.
  let isOfSwiftRuntime: Bool

  init(_ name: String) {
    // An entity in a function is the function's; internal linkage changes nothing.
    var rest = name.dropFirst(2).drop { $0 == "Z" }.drop { $0 == "L" }
    let isNested = rest.first == "N"
    if isNested { rest = rest.dropFirst().drop { "rVKRO".contains($0) } }
    let digits = rest.prefix { "0"..."9" ~= $0 }
    let identifier = rest.dropFirst(digits.count).prefix(Int(digits) ?? 0)
    // `St` is `std::`; `Sa`, `Sb`, `Ss`, `Si`, `So` and `Sd` are types in it.
    let type = rest.first == "S" ? rest.dropFirst().first : nil
    isOfStandardLibrary =
      type.map { "tabsiod".contains($0) } ?? Self.reserved.contains { identifier.hasPrefix($0) }
    // Some functions of the runtime are known by the types of their arguments alone.
    isOfSwiftRuntime =
      (isNested && identifier == "swift") || identifier.hasPrefix("swift_") || identifier.hasPrefix("_swift_")
      || (name.hasPrefix("_ZL") && Self.argumentTypes.contains { name.contains(text: $0) })
  }

  // ICU has its version in its namespace.
  private static let reserved = ["__gnu_", "__gthread_", "__cxxabiv1", "__pstl", "__swift", "icu_"]
  private static let argumentTypes = [
    "N5swift9AsyncTask", "N5swift16ActiveTaskStatus", "N5swift9TaskGroup", "N5swift3Job",
  ]
}
