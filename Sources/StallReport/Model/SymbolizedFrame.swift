/// What is known of one function at a program counter.
package struct SymbolizedFrame: Hashable, Sendable {
  /// The demangled name in full, or the plain name where nothing is mangled.
  package var symbol: String?
  /// The name as people read it: no module, no generic arguments, labels only.
  package var shortSymbol: String?
  /// The linker's name, for `HostCode` and for grouping.
  package var linkageName: String?
  /// The source file as DWARF has it, usually an absolute path on the machine that built it.
  ///
  /// Nil for `<compiler-generated>`, which is no file.
  package var file: String?
  /// The line, 1-based.
  ///
  /// Unknown where the compiler made the code up.
  package var line: Int?
  /// Whether the compiler inlined this function into the next frame of the list.
  package var inlined: Bool
  /// Whether nobody wrote this function: thunks, partial applications, outlined copies, witnesses, synthesized accessors.
  package var isCompilerGenerated: Bool
  /// Whether the function's source is a header of the system's or of the compiler's.
  package var isInSystemHeader = false
  /// Whether Swift's optimizer merged several functions of the same code: which one ran is not known.
  ///
  /// The symbol shows it, too: `merged App.first() -> ()`.
  package var isMerged = false
  /// Whether its module has the library linked in that functions with such names belong to, and debug information does not
  /// show that the service's authors wrote this one.
  ///
  /// Or Swift has compiled the library's function into the module.
  package var isOfLinkedLibrary = false

  package init(
    symbol: String?, shortSymbol: String?, linkageName: String?, file: String?, line: Int?, inlined: Bool,
    isCompilerGenerated: Bool, isInSystemHeader: Bool = false, isMerged: Bool = false
  ) {
    self.symbol = symbol
    self.shortSymbol = shortSymbol
    self.linkageName = linkageName
    self.file = file
    self.line = line
    self.inlined = inlined
    self.isCompilerGenerated = isCompilerGenerated
    self.isInSystemHeader = isInSystemHeader
    self.isMerged = isMerged || symbol.map { ShortSymbol.isMerged($0, linkageName: linkageName ?? "") } ?? false
  }

  /// Makes a function of which at most the linker's name is known.
  package init(linkageName: String?) {
    self.init(
      symbol: linkageName, shortSymbol: nil, linkageName: linkageName, file: nil, line: nil, inlined: false,
      isCompilerGenerated: false)
  }
}

/// The answer of ``Symbolizer/symbolize(module:address:deadline:)``.
package struct Symbolication: Hashable, Sendable {
  /// Innermost first: inlined functions, then the physical one.
  ///
  /// Empty if nothing is known.
  package var frames: [SymbolizedFrame]
  /// Whether the deadline passed before everything was looked up.
  ///
  /// The next look-up continues from there.
  package var isIncomplete: Bool
  /// Why the module has no symbols at all, in words.
  package var problem: String?

  package init(frames: [SymbolizedFrame], isIncomplete: Bool, problem: String? = nil) {
    self.frames = frames
    self.isIncomplete = isIncomplete
    self.problem = problem
  }
}
