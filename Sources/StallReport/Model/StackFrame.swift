/// A frame of a backtrace with all that is known of it.
package struct StackFrame: Sendable, Equatable {
  /// The demangled name.
  package var symbol: String?
  /// The name as people read it, for the message.
  package var shortSymbol: String?
  package var file: String?
  package var line: Int?
  /// The call was inlined into the next frame that is not.
  package var isInlined = false
  /// The function is not on the stack: it waits for an asynchronous call to return.
  package var isAsync = false
  package var module: String?
  package var buildID: String?
  /// The address in the module that `addr2line` takes; for a caller, of the call and not of its return.
  package var offset: UInt64?
  /// Whose code it is.
  package var owner: CodeOwner = .host
  /// A thunk or the like, which nobody wrote.
  package var isCompilerGenerated = false
  /// Code that several functions share; the symbol is that of one of them, marked.
  package var isMerged = false
  /// Where its names are to be found; nil if they have been looked up, or lie in no module.
  package var source: SymbolSource?
  /// There was no time for all of its names.
  package var isPending = false
  /// Where its function begins in the module, if that is known and its name is not.
  package var function: UInt64?

  package init(
    symbol: String? = nil, shortSymbol: String? = nil, file: String? = nil, line: Int? = nil, isInlined: Bool = false,
    module: String? = nil, buildID: String? = nil, offset: UInt64? = nil, owner: CodeOwner = .host,
    isCompilerGenerated: Bool = false
  ) {
    self.symbol = symbol
    self.shortSymbol = shortSymbol
    self.file = file
    self.line = line
    self.isInlined = isInlined
    self.module = module
    self.buildID = buildID
    self.offset = offset
    self.owner = owner
    self.isCompilerGenerated = isCompilerGenerated
  }

  /// The symbol, or the module and the offset where there is none.
  package var name: String {
    if let symbol { return symbol }
    let base = module.map { $0.lastPathPart ?? $0 } ?? "unknown module"
    return offset.map { "\(base)+0x" + String($0, radix: 16) } ?? base
  }

  /// The function's identity: its name, or its place in the build.
  package var functionKey: String { symbol ?? "\(buildID ?? module ?? "")+\(function ?? offset ?? 0)" }

  /// The short name, with file and line where they are known.
  package var place: String {
    let text = shortSymbol ?? name
    guard let file else { return text }
    let base = file.lastPathPart ?? file
    return "\(text) (\(base)\(line.map { ":\($0)" } ?? ""))"
  }

  /// The frame as a report has it.
  package var json: JSONWriter {
    var frame = self
    frame.symbol = symbol?.limited(to: 700)
    frame.file = file?.limited(to: 300)
    frame.module = module?.limited(to: 300)
    return frame.wholeJSON
  }

  /// The frame with all of its texts.
  package var wholeJSON: JSONWriter {
    var object = JSONWriter()
    object.member("symbol", symbol)
    object.member("file", file)
    object.member("line", line)
    object.member("inlined", ifTrue: isInlined)
    object.member("async", ifTrue: isAsync)
    object.member("module", module)
    object.member("build_id", buildID)
    object.member("offset", offset.map { "0x" + String($0, radix: 16) })
    return object
  }
}
