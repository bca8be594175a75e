import StallReport

/// Decides whose code a frame is: code belongs to where it comes from.
///
/// 1. A shared library of the distribution, of the toolchain, or with the file name of a known library is not the service's.
/// 2. In the executable and in the service's own libraries, a function is a library's if its name is one that nobody else has:
///    `std::`, `__cxa_`, the Swift module `Foundation`.
/// 3. A name that anybody could give (``LinkedLibrary``) is a library's only if that is linked into this module, and no debug
///    information shows that the service's authors wrote the function (`SymbolizedFrame.isOfLinkedLibrary`).
/// 4. Everything else is the service's.
///
/// Pure; no allocation of note.
package enum HostCode {
  /// Whose code a frame is.
  ///
  /// - Parameters:
  ///   - modulePath: The module's path as mapped.
  ///   - isExecutable: Whether it is the main executable, which is the service's wherever it lies.
  ///   - linkageName: The mangled name, if known.
  ///   - symbol: The demangled name, if known: it alone says that a method of `String` is an extension by the service.
  ///   - isOfLinkedLibrary: `SymbolizedFrame.isOfLinkedLibrary`.
  /// - Returns: The owner; the service by default.
  package static func owner(
    modulePath: String, isExecutable: Bool, linkageName: String?, symbol: String? = nil, isOfLinkedLibrary: Bool = false
  ) -> CodeOwner {
    if !isExecutable, let owner = ownerOfLibrary(modulePath) { return owner }
    guard let linkageName, !linkageName.isEmpty else { return .host }
    let owner =
      ShortSymbol.isSwift(linkageName)
      ? swiftModule(of: linkageName, symbol: symbol).map(owner(of:)) ?? .host : ownerOfC(linkageName)
    guard owner == .host, isOfLinkedLibrary else { return owner }
    return LinkedLibrary.candidate(linkageName: linkageName, symbol: symbol)?.owner ?? .host
  }

  /// Returns a library's owner by its directory and name; nil if these do not show it.
  package static func ownerOfLibrary(_ path: String) -> CodeOwner? {
    if path.hasPrefix("[") || path.hasPrefix("linux-vdso.so") || path.hasPrefix("linux-gate.so") { return .system }
    let name = path.lastPathPart ?? path
    if let library = loopFiles.first(where: { name.hasPrefix($0.name) }) { return library.owner }
    if let (stem, hasVersion) = stem(of: name) {
      if stem == "libstallmonitor" { return .monitor }
      if runtimeLibraries.contains(stem) { return .runtime }
      if hasVersion, systemLibraries.contains(stem) { return .system }
    }
    // A toolchain's libraries, wherever it is installed: in this directory, or in one for the machine.
    let parts = path.split(separator: "/").dropLast()
    for count in [0, 1] where parts.dropLast(count).suffix(3).elementsEqual(["lib", "swift", "linux"]) {
      return .runtime
    }
    for root in ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"] where path.hasPrefix(root) {
      let rest = path.dropFirst(root.count)
      // Right in it, or in a multiarch directory. Deeper down are private libraries of programs, hosts among them.
      guard let slash = rest.firstIndex(of: "/") else { return .system }
      if rest[..<slash].contains(text: "-linux-gnu") || rest[..<slash].contains(text: "-linux-musl") { return .system }
    }
    return nil
  }

  /// The name of a library's file without its version: `libc` for `libc.so.6` and for `libc-2.31.so`.
  private static func stem(of file: String) -> (stem: Substring, hasVersion: Bool)? {
    let parts = file.split(separator: ".", omittingEmptySubsequences: false)
    guard let end = parts.firstIndex(of: "so"), end > 0 else { return nil }
    let stem = file[..<parts[end - 1].endIndex]
    if let dash = stem.lastIndex(of: "-") {
      let version = stem[dash...].dropFirst()
      // Not the one of `ld-linux-x86-64`.
      if version.contains("."), version.allSatisfy({ $0 == "." || "0"..."9" ~= $0 }) { return (stem[..<dash], true) }
    }
    return (stem, end + 1 < parts.count)
  }

  private static let runtimeLibraries: Set<Substring> = [
    "libBlocksRuntime", "libFoundation", "libFoundationEssentials", "libFoundationInternationalization",
    "libFoundationNetworking", "libFoundationXML", "libTesting", "libXCTest", "lib_FoundationICU",
    "lib_TestingInterop", "lib_Testing_Foundation", "libswiftCore", "libswiftDistributed", "libswiftGlibc",
    "libswiftMusl", "libswiftObservation", "libswiftRegexBuilder", "libswiftRemoteMirror", "libswiftRuntime",
    "libswiftSwiftOnoneSupport", "libswiftSynchronization", "libswift_Builtin_float", "libswift_Concurrency",
    "libswift_Differentiation", "libswift_RegexParser", "libswift_StringProcessing", "libswift_Volatile",
    "libstdc++", "libc++", "libc++abi", "libgcc_s",
  ]
  // With a version, which a service's own library of the same name would not have.
  private static let systemLibraries: Set<Substring> = [
    "libc", "libc.musl-x86_64", "libc.musl-aarch64", "ld", "ld-linux-x86-64", "ld-linux-aarch64", "ld-musl-x86_64",
    "ld-musl-aarch64", "libm", "libpthread", "libdl", "librt", "libresolv", "libanl", "libutil", "libdw", "libelf",
    "libunwind", "libunwind-x86_64", "libunwind-aarch64",
  ]

  // Libraries that run loops have theirs in `LoopLibrary`; names that a service may give its modules are in `LinkedLibrary`.
  private static let runtimeModules: Set<Substring> = [
    "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "_Differentiation", "_Builtin_float", "_Volatile",
    "SwiftOnoneSupport",
    "Foundation", "FoundationEssentials", "FoundationInternationalization", "FoundationNetworking", "FoundationXML",
    "_FoundationCollections", "_FoundationICU", "_FoundationCShims", "Glibc", "Musl",
    "SwiftGlibc", "XCTest", "__C", "__C_Synthesized",
  ]
  private static let loopModules: [Substring: CodeOwner] = Dictionary(
    uniqueKeysWithValues: LoopLibrary.all.flatMap { library in library.modules.map { ($0[...], library.owner) } })
  private static let loopFunctions = LoopLibrary.all.filter(\.anchors.isEmpty).flatMap { library in
    library.ownFunctions.map { (name: $0, owner: library.owner) }
  }
  private static let loopFiles = LoopLibrary.all.flatMap { library in
    library.files.map { (name: $0, owner: library.owner) }
  }

  /// The module of Swift that a function belongs to; nil if its name does not show it.
  ///
  /// The mangling begins with the outermost context, which is a module or a known type of the standard library.
  ///
  /// Format: docs/ABI/Mangling.rst of the Swift compiler.
  static func swiftModule(of linkageName: String, symbol: String?) -> Substring? {
    if let symbol, let module = extendingModule(symbol) { return module }
    let start = linkageName.hasPrefix("_") ? 3 : 2
    let rest = linkageName.utf8.dropFirst(start)
    guard let first = rest.first else { return nil }
    if first == UInt8(ascii: "s") || first == UInt8(ascii: "S") { return "Swift" }
    guard first >= UInt8(ascii: "1"), first <= UInt8(ascii: "9") else { return nil }
    var length = 0
    var name = rest
    while let digit = name.first, digit >= 0x30, digit <= 0x39, length < 1000 {
      length = length * 10 + Int(digit - 0x30)
      name = name.dropFirst()
    }
    return Substring(name.prefix(length))
  }

  /// Whose code a Swift module is, by its name: the service's if anybody could give it.
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
    if name.hasPrefix("_Z"), CxxName(name).isOfStandardLibrary { return .runtime }
    if MonitorCode.functions.contains(where: { name.hasPrefix($0) }) { return .monitor }
    if let library = loopFunctions.first(where: { name.hasPrefix($0.name) }) { return library.owner }
    if runtimeFunctions.contains(name) || runtimeNames.contains(where: { name.hasPrefix($0) }) { return .runtime }
    return name == "_start" || systemNames.contains(where: { name.hasPrefix($0) }) ? .system : .host
  }

  private static let runtimeFunctions: Set<String> = [
    // Placement: the header's, where the others may be the service's own. What clang makes for noexcept.
    "_ZnwmPv", "_ZnamPv", "_ZdlPvS_", "_ZdaPvS_", "__clang_call_terminate",
    // Of the object that is linked into each executable and library of Swift.
    "_ZL23swift_image_constructorv",
  ]
  // Beginnings that the standards of C and C++ reserve for the implementation.
  private static let runtimeNames = [
    "__swift_", "Swift runtime failure: ", "_Block_", "__cxa_", "__gxx_", "_Unwind_", "__gthread_",
  ]
  private static let systemNames = [
    "__libc_", "__pthread_", "__restore_rt", "__clone", "__vdso_", "__kernel_",
  ]
}
