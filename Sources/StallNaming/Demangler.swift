import CSymbols
import PlatformLibc
import StallReport

/// Turns linkage names into names, with the demanglers of the runtimes that are in the process anyway.
enum Demangler {
  /// The demangled name, or nil if `linkageName` is not mangled (C), is not understood, or might take more than 1 ms or 64 KiB.
  ///
  /// What marks a copy or a part of the function is left out. Cost: 2–4 µs and a few allocations a name; the most is limited in
  /// units of work, see `max_work` in demangle.c. Any thread.
  static func demangle(_ linkageName: String) -> String? {
    var name = linkageName
    return name.withUTF8 { utf8 in
      utf8.withMemoryRebound(to: CChar.self) { characters -> String? in
        guard let base = characters.baseAddress, utf8.count > 2 else { return nil }
        // swift_demangle takes a length, __cxa_demangle a terminated string.
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: utf8.count + 1) { copy in
          for index in 0..<utf8.count { copy[index] = base[index] }
          copy[utf8.count] = 0
          guard let result = csymbols_demangle(copy.baseAddress, utf8.count) else { return nil }
          defer { free(result) }
          return String(cString: result)
        }
      }
    }
  }
}

extension SymbolizedFrame {
  /// The most bytes of a name; a longer one is cut at the beginning of a character.
  static let longestName = 64 << 10

  private static func name(_ text: UnsafePointer<CChar>) -> String {
    guard strnlen(text, longestName + 1) > longestName else { return String(cString: text) }
    var end = longestName
    // The bytes of a character of UTF-8 behind its first one.
    while end > longestName - 3, UInt8(bitPattern: text[end]) & 0xC0 == 0x80 { end -= 1 }
    return text.withMemoryRebound(to: UInt8.self, capacity: end) {
      String(decoding: UnsafeBufferPointer(start: $0, count: end), as: UTF8.self)
    }
  }

  /// Copies a frame of the C side, demangling its name.
  ///
  /// - Parameters:
  ///   - frame: The frame.
  ///   - qualified: Finds DWARF's name with those of the namespaces and classes around it; called if no demangler gives a name.
  package init(_ frame: csymbols_frame, qualified: () -> UnsafePointer<CChar>?) {
    let given = (frame.linkage_name ?? frame.name).map(Self.name)
    let linkageName = frame.is_copy ? given.map { String($0.prefix { $0 != "." }) } : given
    // DWARF has a name of what a demangler does not know or refuses: C++20's constraints, names of a thousand bytes.
    func described() -> String? {
      linkageName?.hasPrefix("_Z") == true ? (qualified() ?? frame.name).map(Self.name) : nil
    }
    let plain = linkageName.flatMap(Demangler.demangle) ?? described() ?? linkageName
    // DWARF has the name of the first of the functions that were merged.
    let full = plain.map { frame.merged ? ShortSymbol.markMerged($0) : $0 }
    let file = frame.file.map { String(cString: $0) }.flatMap { $0.hasSuffix("<compiler-generated>") ? nil : $0 }
    let name = linkageName ?? ""
    // swiftc marks thunks as artificial, and gives accessors and witnesses that it made up no line
    // of declaration. It marks the top level of an asynchronous main.swift as artificial, too,
    // although it is in the source. GCC marks each lambda's call as artificial, although it is in
    // the source.
    let isLambda = frame.name.map { strncmp($0, "operator()", 10) == 0 } ?? false
    // So does swiftc with an initializer that the optimizer has taken the type from, and with what `async let` runs.
    let isWritten = isLambda || (frame.declared && full.map(Self.isInitializerOrAsyncLet) ?? false)
    let made = (frame.artificial && !isWritten) || (frame.described && !frame.declared && name.hasPrefix("$s"))
    self.init(
      symbol: full,
      shortSymbol: full.map { ShortSymbol.shorten($0, linkageName: name) },
      linkageName: linkageName,
      file: file,
      line: file == nil || frame.line == 0 ? nil : Int(frame.line),
      inlined: frame.inlined,
      isCompilerGenerated: (made && !ShortSymbol.isTopLevelOfAsyncMain(name))
        || ShortSymbol.isCompilerGenerated(full ?? name, linkageName: name),
      isInSystemHeader: !ShortSymbol.isSwift(name) && Self.isInSystemHeader(frame, file: file),
      isMerged: frame.merged
    )
  }

  /// Whether the demangled name is that of an initializer, or of an asynchronous expression: the one of `async let`, or of an autoclosure.
  ///
  /// Not that of a closure in an initializer, nor of a default argument, whose caller is on the stack.
  private static func isInitializerOrAsyncLet(_ symbol: String) -> Bool {
    let plain = ShortSymbol.withoutDisguise(symbol, linkageName: "$s")
    if plain.hasPrefix("implicit closure #") {
      return plain.split(separator: " ").prefix { $0 != "in" }.contains("async")
    }
    let base = ShortSymbol.shorten(plain, linkageName: "$s").prefix { $0 != "(" && $0 != " " }
    return base == "init" || base.hasSuffix(".init") || base.hasSuffix(".__allocating_init")
  }

  /// Whether a header of the system's has the function: by its declaration, and without one by its lines.
  private static func isInSystemHeader(_ frame: csymbols_frame, file: String?) -> Bool {
    guard let place = frame.declared_in.map({ String(cString: $0) }) ?? file else { return false }
    // Clang writes what lies in the directory that it ran in without that.
    let directory = frame.unit_directory.map { String(cString: $0) + "/" } ?? ""
    func whole(_ path: String) -> String { path.hasPrefix("/") ? path : directory + path }
    return SystemHeaders.contain(whole(place), compiledFor: frame.unit_name.map { whole(String(cString: $0)) })
  }
}
