/// A frame of a backtrace with all that is known of it.
struct StackFrame: Sendable, Equatable {
  /// The demangled name.
  var symbol: String?
  /// The name as people read it, for the message.
  var shortSymbol: String?
  var file: String?
  var line: Int?
  /// The call was inlined into the next frame that is not.
  var isInlined = false
  var module: String?
  var buildID: String?
  /// The address in the module that `addr2line` takes; for a caller, of the call and not of its return.
  var offset: UInt64?
  /// Whose code it is.
  var owner: CodeOwner = .host
  /// A thunk or the like, which nobody wrote.
  var isCompilerGenerated = false

  /// The symbol, or the module and the offset where there is none.
  var name: String {
    if let symbol { return symbol }
    let base = module.map { $0.split(separator: "/").last.map(String.init) ?? $0 } ?? "unknown module"
    return offset.map { "\(base)+0x" + String($0, radix: 16) } ?? base
  }

  /// The short name, with file and line where they are known.
  var place: String {
    let text = shortSymbol ?? name
    guard let file else { return text }
    let base = file.split(separator: "/").last.map(String.init) ?? file
    return "\(text) (\(base)\(line.map { ":\($0)" } ?? ""))"
  }

  var json: JSONLine {
    var object = JSONLine()
    object.member("symbol", symbol?.limited(to: 700))
    object.member("file", file?.limited(to: 300))
    object.member("line", line)
    object.member("inlined", ifTrue: isInlined)
    object.member("module", module?.limited(to: 300))
    object.member("build_id", buildID)
    object.member("offset", offset.map { "0x" + String($0, radix: 16) })
    return object
  }
}
