import StallReport

extension StackFrame {
  /// This place in the code with the functions that are there, innermost first; itself if none is known.
  package func named(_ names: [SymbolizedFrame], isExecutable: Bool) -> [StackFrame] {
    func owner(of name: SymbolizedFrame?) -> CodeOwner {
      let owner = HostCode.owner(
        modulePath: module ?? "", isExecutable: isExecutable, linkageName: name?.linkageName, symbol: name?.symbol,
        isOfLinkedLibrary: name?.isOfLinkedLibrary ?? false)
      return owner == .host && name?.isInSystemHeader == true ? .runtime : owner
    }
    var frame = self
    guard !names.isEmpty else {
      frame.owner = owner(of: nil)
      return [frame]
    }
    return names.map { name in
      frame.symbol = name.symbol.map { ShortSymbol.withoutDisguise($0, linkageName: name.linkageName ?? "") }
      frame.shortSymbol = name.shortSymbol
      frame.file = name.file
      frame.line = name.line
      frame.isInlined = name.inlined
      frame.owner = owner(of: name)
      frame.isCompilerGenerated = name.isCompilerGenerated
      frame.isMerged = name.isMerged
      return frame
    }
  }
}
