import StallReport

/// Separates the service's own code from libraries and the runtime.
///
/// By the module's path, and by the symbol: with `-static-stdlib` the runtime, the standard library and this monitor
/// are all in the service's executable. Pure; no allocation of note. An unknown function in the executable is the service's.
package enum HostCode {
  /// Whose code a frame is.
  ///
  /// - Parameters:
  ///   - modulePath: The module's path as mapped.
  ///   - isExecutable: Whether it is the main executable, which is the service's wherever it lies.
  ///   - linkageName: The mangled name, if known.
  ///   - symbol: The demangled name, if known: it alone says that a method of `String` is an extension by the service.
  /// - Returns: The owner; the service by default.
  package static func owner(modulePath: String, isExecutable: Bool, linkageName: String?, symbol: String? = nil)
    -> CodeOwner
  {
    if !isExecutable, let owner = ownerOfLibrary(modulePath) { return owner }
    guard let linkageName, !linkageName.isEmpty else { return .host }
    if ShortSymbol.isSwift(linkageName) { return ownerOfSwift(linkageName, symbol: symbol) }
    return ownerOfC(linkageName)
  }

  /// Returns a library's owner by its directory and name; nil if these do not show it.
  package static func ownerOfLibrary(_ path: String) -> CodeOwner? {
    if path.hasPrefix("[") || path.hasPrefix("linux-vdso.so") || path.hasPrefix("linux-gate.so") { return .system }
    let name = path.lastPathPart ?? path
    if name.hasPrefix("libstallmonitor.so") { return .monitor }
    if let library = loopFiles.first(where: { name.hasPrefix($0.name) }) { return library.owner }
    if runtimeLibraries.contains(where: { name.hasPrefix($0) }) { return .runtime }
    if systemLibraries.contains(where: { name.hasPrefix($0) }) { return .system }
    for root in ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"] where path.hasPrefix(root) {
      let rest = path.dropFirst(root.count)
      // Right in it, or in a multiarch directory. Deeper down are private libraries of programs, hosts among them.
      guard let slash = rest.firstIndex(of: "/") else { return .system }
      if rest[..<slash].contains(text: "-linux-gnu") || rest[..<slash].contains(text: "-linux-musl") { return .system }
    }
    return nil
  }

  // By the beginning of the file name: "libswiftCore.so", "libstdc++.so.6".
  private static let runtimeLibraries = [
    "libswift", "lib_Swift", "libFoundation", "lib_Foundation", "libBlocksRuntime.so",
    "libTesting.so",
    "lib_Testing", "libXCTest.so", "libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so",
  ]
  private static let systemLibraries = [
    "libc.so", "libc-2", "ld-linux", "ld-2", "ld-musl", "libm.so", "libpthread", "libdl.so", "librt.so", "libresolv",
    "libnss_", "libanl.so", "libutil.so", "libdw.so", "libdw-", "libelf.so", "libelf-", "libunwind",
  ]

  // Libraries that run loops have theirs in `LoopLibrary`.
  private static let runtimeModules: Set<Substring> = [
    "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "Synchronization", "Distributed", "Observation",
    "_Differentiation", "_Builtin_float", "_Volatile", "Runtime", "SwiftOnoneSupport", "Cxx", "CxxStdlib",
    "RegexBuilder",
    "Foundation", "FoundationEssentials", "FoundationInternationalization", "FoundationNetworking", "FoundationXML",
    "_FoundationCollections", "_FoundationICU", "_FoundationCShims", "Glibc", "Musl",
    "SwiftGlibc", "Testing", "XCTest", "__C", "__C_Synthesized",
  ]
  private static let loopModules: [Substring: CodeOwner] = Dictionary(
    uniqueKeysWithValues: LoopLibrary.all.flatMap { library in library.modules.map { ($0[...], library.owner) } })
  private static let loopFunctions = LoopLibrary.all.flatMap { library in
    library.ownFunctions.map { (name: $0, owner: library.owner) }
  }
  private static let loopFiles = LoopLibrary.all.flatMap { library in
    library.files.map { (name: $0, owner: library.owner) }
  }

  /// The mangling begins with the outermost context, which is a module or a known type of the standard library.
  ///
  /// Format: docs/ABI/Mangling.rst of the Swift compiler.
  private static func ownerOfSwift(_ linkageName: String, symbol: String?) -> CodeOwner {
    if let symbol, let module = extendingModule(symbol) { return owner(of: module) }
    let start = linkageName.hasPrefix("_") ? 3 : 2
    let rest = linkageName.utf8.dropFirst(start)
    guard let first = rest.first else { return .host }
    if first == UInt8(ascii: "s") || first == UInt8(ascii: "S") { return .runtime }
    guard first >= UInt8(ascii: "1"), first <= UInt8(ascii: "9") else { return .host }
    var length = 0
    var name = rest
    while let digit = name.first, digit >= 0x30, digit <= 0x39, length < 1000 {
      length = length * 10 + Int(digit - 0x30)
      name = name.dropFirst()
    }
    return owner(of: Substring(name.prefix(length)))
  }

  /// Whose code a Swift module is, by its name.
  package static func owner(of module: Substring) -> CodeOwner {
    if MonitorCode.modules.contains(module) { return .monitor }
    return loopModules[module] ?? (runtimeModules.contains(module) ? .runtime : .host)
  }

  /// The module that extends another module's type: `closure #1 in (extension in
  /// App):Swift.String.shout()`.
  ///
  /// Only that of the entity itself, and not that of a type among its arguments.
  private static func extendingModule(_ symbol: String) -> Substring? {
    let mark = "(extension in "
    guard symbol.utf8.contains(UInt8(ascii: "(")), let range = symbol.firstRange(ofText: mark) else { return nil }
    let before = symbol[..<range.lowerBound]
    guard before.isEmpty || [" in ", " of ", " for ", "static ", " to "].contains(where: { before.hasSuffix($0) })
    else {
      return nil
    }
    return symbol[range.upperBound...].prefix { $0 != ")" }
  }

  private static func ownerOfC(_ name: String) -> CodeOwner {
    if isOfLibraryInCxx(name) { return .runtime }
    if MonitorCode.functions.contains(where: { name.hasPrefix($0) }) { return .monitor }
    if let library = loopFunctions.first(where: { name.hasPrefix($0.name) }) { return library.owner }
    if runtimeNames.contains(where: { name.hasPrefix($0) }) { return .runtime }
    if systemNames.contains(where: { name.hasPrefix($0) }) { return .system }
    // CoreFoundation: CFRunLoopRun, _CFRunLoopGet0, __CFRunLoopDoObservers.
    let bare = name.drop { $0 == "_" }
    if bare.hasPrefix("CF"), let letter = bare.dropFirst(2).first, letter.isUppercase { return .runtime }
    return .host
  }

  /// Whether a mangled name of C++ is one of the standard library's or of Swift's runtime, or of the namespaces that these are
  /// made of.
  ///
  /// Format: the Itanium C++ ABI, 5.1. `St` is `std::`; `Sa`, `Sb`, `Ss`, `Si`, `So` and `Sd` are types in it.
  private static func isOfLibraryInCxx(_ name: String) -> Bool {
    guard name.hasPrefix("_Z") else { return false }
    // An entity in a function is the function's; internal linkage changes nothing.
    var rest = name.dropFirst(2).drop { $0 == "Z" }.drop { $0 == "L" }
    if rest.first == "N" { rest = rest.dropFirst().drop { "rVKRO".contains($0) } }
    if rest.first == "S", let type = rest.dropFirst().first { return "tabsiod".contains(type) }
    let identifier = rest.drop { "0"..."9" ~= $0 }
    if libraryNames.contains(where: { identifier.hasPrefix($0) }) { return true }
    // The runtime of Swift concurrency, by the types of its arguments, which nobody else has.
    return name.hasPrefix("_ZL") && runtimeTypes.contains { name.contains(text: $0) }
  }

  private static let libraryNames = [
    "__gnu_", "__gthread_", "__cxxabiv1", "__pstl", "__swift", "swift_", "_swift_",
  ]
  private static let runtimeTypes = [
    "N5swift9AsyncTask", "N5swift16ActiveTaskStatus", "N5swift9TaskGroup", "N5swift3Job",
  ]
  private static let runtimeNames = [
    "swift_", "_swift_", "__swift_", "Swift runtime failure: ", "_Block_",
    "__cxa_", "__gxx_", "_Unwind_", "_foundation_", "__gthread_", "_ZN5swift", "_ZNK5swift", "_ZN4icu_",
    "_ZN6icu_", "_ZN20_foundation_unicode",
    // Placement: the header's, where the others may be the service's own. What clang makes for noexcept.
    "_ZnwmPv", "_ZnamPv", "_ZdlPvS_", "_ZdaPvS_", "__clang_call_terminate",
    "objc_",
  ]
  private static let systemNames = [
    "_start", "__libc_", "_dl_", "__pthread_", "__restore_rt", "__clone", "clone3", "start_thread", "__vdso_",
    "__kernel_",
  ]
}
