import StallReport

/// A kind of frames that a person rarely needs to see, such as those of a run loop.
///
/// ``all`` lists which frames fold; those of libraries that run loops come from `LoopLibrary`.
struct FoldRule: Sendable {
  /// How the frames are called: "12 frames of LoopEngine".
  var name: String
  /// Beginnings of the file names of modules all of whose frames fold.
  var modules: [String] = []
  /// Beginnings of the file names of modules whose frames fold if they have no symbol.
  var modulesWithoutSymbols: [String] = []
  /// Modules of Swift, and contexts in them, such as `Foundation.RunLoop`.
  var contexts: [String] = []
  /// Beginnings of symbols of C and C++.
  var prefixes: [String] = []
  /// Whole symbols of C.
  var symbols: Set<String> = []
  /// Whether functions that the compiler generates fold.
  var foldsGenerated = false
  /// Whether frames fold that the service's own code called, and not only those that called it.
  var foldsCallees = false

  static let all =
    [
      FoldRule(name: "thunks", foldsGenerated: true, foldsCallees: true),
      // `LoopEngine` has a row of its own below.
      FoldRule(
        name: "StallMonitor", modules: ["libstallmonitor.so"],
        contexts: MonitorCode.modules.subtracting(["LoopEngine"]).sorted().map(String.init),
        prefixes: MonitorCode.functions),
      FoldRule(
        name: "Swift concurrency", modules: ["libswift_Concurrency.so"], contexts: ["_Concurrency"],
        prefixes: ["swift::runJob", "swift_job_run", "swift_task_", "swift_async"]),
    ] + LoopLibrary.all.map(FoldRule.init) + [
      FoldRule(
        name: "the C library", modulesWithoutSymbols: ["libc.so", "libc-2", "ld-linux", "libpthread", "libstdc++.so"],
        prefixes: ["std::thread::"],
        symbols: [
          "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "start_thread", "clone",
          "__clone", "clone3", "__clone3", "execute_native_thread_routine", "_dl_start_user",
        ])
    ]

  /// The rule that a frame matches; nil for a frame that is always shown.
  static func rule(symbol: String, module path: String) -> FoldRule? {
    let module = path.lastPathPart ?? ""
    let context = symbol.isEmpty ? nil : ShortSymbol.module(of: symbol)
    return all.first { rule in
      if rule.modules.contains(where: module.hasPrefix) { return true }
      if symbol.isEmpty { return rule.modulesWithoutSymbols.contains(where: module.hasPrefix) }
      if rule.foldsGenerated, ShortSymbol.isCompilerGenerated(symbol) { return true }
      return rule.symbols.contains(symbol) || rule.prefixes.contains(where: symbol.hasPrefix)
        || context.map { rule.contains($0, symbol) } ?? false
    }
  }

  /// Whether a function of a module is in one of the contexts.
  private func contains(_ module: Substring, _ symbol: String) -> Bool {
    contexts.contains { context in
      context == module || (context.hasPrefix(module + ".") && symbol.contains(context + "."))
    }
  }
}

extension FoldRule {
  /// The frames of a library that runs loops.
  ///
  /// The names of functions that run the loop match as a whole: a service may have names that begin like them.
  fileprivate init(_ library: LoopLibrary) {
    self.init(
      name: library.name, modules: library.files, modulesWithoutSymbols: library.filesWithoutSymbols,
      contexts: library.modules + library.foldedTypes, prefixes: library.foldedFunctions,
      symbols: library.foldedSymbols.union(library.loops))
  }
}
