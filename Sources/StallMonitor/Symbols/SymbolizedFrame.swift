/// What is known of one function at a program counter.
struct SymbolizedFrame: Hashable, Sendable {
  /// The demangled name in full, or the plain name where nothing is mangled.
  var symbol: String?
  /// The name as people read it: no module, no generic arguments, labels only.
  var shortSymbol: String?
  /// The linker's name, for `HostCode` and for grouping.
  var linkageName: String?
  /// The source file as DWARF has it, usually an absolute path on the machine that built it.
  ///
  /// Nil for `<compiler-generated>`, which is none.
  var file: String?
  /// The line, 1-based.
  ///
  /// Unknown where the compiler made the code up.
  var line: Int?
  /// Whether the compiler inlined this function into the next frame of the list.
  var inlined: Bool
  /// Whether nobody wrote this function: thunks, partial applications, outlined copies, witnesses, synthesized accessors.
  var isCompilerGenerated: Bool
}

/// The answer of ``Symbolizer/symbolize(module:address:deadline:)``.
struct Symbolication: Hashable, Sendable {
  /// Innermost first: inlined functions, then the physical one.
  ///
  /// Empty if nothing is known.
  var frames: [SymbolizedFrame]
  /// Whether the deadline passed before everything was looked at.
  ///
  /// Asking again goes on from there.
  var isIncomplete: Bool
  /// Why the module has no symbols at all, in words.
  var problem: String?
}
