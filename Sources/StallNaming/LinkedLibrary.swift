import StallReport

/// A library whose functions have names that anybody could give: `swift_retain`, `dispatch_async`, `CFRetain`.
///
/// Where it is linked statically, its functions are in the service's executable or in one of the service's libraries. Such a
/// module defines the library's anchors. In any other module the names are the service's.
package struct LinkedLibrary: Sendable {
  package let name: String
  package let owner: CodeOwner
  /// Functions that no program can use the library without.
  ///
  /// A module that defines one of them has the library in it.
  package let anchors: [String]
  /// Names of functions in C.
  private var functions: Set<Substring> = []
  /// Beginnings of names of functions in C.
  private var beginnings: [String] = []
  /// Names of Swift modules.
  private var modules: Set<Substring> = []

  /// The library that a function with this name may belong to.
  ///
  /// - Parameters:
  ///   - linkageName: The mangled name.
  ///   - symbol: The demangled name, if known.
  /// - Returns: The library; nil if no library of the table has such names.
  package static func candidate(linkageName: String, symbol: String?) -> LinkedLibrary? {
    if ShortSymbol.isSwift(linkageName) {
      guard let module = HostCode.swiftModule(of: linkageName, symbol: symbol) else { return nil }
      return all.first { $0.modules.contains(module) }
    }
    if linkageName.hasPrefix("_Z") { return CxxName(linkageName).isOfSwiftRuntime ? swiftRuntime : nil }
    let function = linkageName.prefix { $0 != "." }
    return all.first { $0.mayHave(function) }
  }

  private func mayHave(_ function: Substring) -> Bool {
    functions.contains(function) || beginnings.contains { function.hasPrefix($0) }
  }

  /// With the standard library, and what is shipped with it.
  private static let swiftRuntime = LinkedLibrary(
    name: "Swift", owner: .runtime, anchors: ["swift_retain", "swift_allocObject"],
    beginnings: ["swift_", "_swift_", "_foundation_"],
    modules: [
      "Cxx", "CxxStdlib", "Distributed", "Observation", "RegexBuilder", "Runtime", "Synchronization", "Testing",
    ])
  private static let libc = LinkedLibrary(
    name: "libc", owner: .system, anchors: ["__libc_start_main"], functions: ["clone3", "start_thread"],
    beginnings: ["_dl_"])

  private static let all =
    [swiftRuntime, libc]
    + LoopLibrary.all.filter { !$0.anchors.isEmpty }.map { library in
      LinkedLibrary(
        name: library.name, owner: library.owner, anchors: library.anchors, beginnings: library.ownFunctions)
    }
}
