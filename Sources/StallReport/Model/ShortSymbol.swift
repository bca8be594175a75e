/// Names for people: the name in the source, without module, types, generic arguments and the
/// compiler's additions.
///
/// Works on the demangled text, because `swift_demangle` has no simplified form to offer. Pure functions; linear in the
/// text, and nested at most ``depthLimit`` deep. Text that is not understood comes back whole.
package enum ShortSymbol {
  /// The short form of a demangled name.
  ///
  /// `closure #1 (Swift.Int) -> () in stalld.Demo.compute(rounds: Swift.Int) -> Swift.Int` becomes
  /// `closure #1 in Demo.compute(rounds:)`. Specializations and the parts that an `async` function is cut into carry the
  /// function's own name; thunks, partial applications and merged functions say that they are.
  ///
  /// - Parameters:
  ///   - symbol: The demangled name.
  ///   - linkageName: The mangled name, which shows the language. C names stay as they are.
  /// - Returns: The short form, or `symbol` itself where there is none.
  package static func shorten(_ symbol: String, linkageName: String) -> String {
    if isSwift(linkageName) {
      let short = swift(Array(symbol.utf8)[...], depth: 0)
      return isMerged(symbol, linkageName: linkageName) ? mergedMark + short : short
    }
    if linkageName.hasPrefix("_Z") { return cxx(Array(symbol.utf8)) }
    if isTopLevelOfAsyncMain(linkageName) { return "main.swift (top level)" }
    return withoutCopyMarks(symbol)
  }

  /// The full name without what makes a copy or a part of a function differ from the function.
  ///
  /// A specialization and a resumed part of an `async` function are the function, in debug and in release; so are the copies
  /// and parts that GCC and LLVM make of functions in C. Marks behind mangled names are gone once these are demangled.
  ///
  /// Merged code stays marked, in front: it is the function's, and that of others.
  package static func withoutDisguise(_ symbol: String, linkageName: String) -> String {
    if isTopLevelOfAsyncMain(linkageName) { return asyncMain }
    guard isSwift(linkageName) else { return withoutCopyMarks(symbol) }
    let text = Array(symbol.utf8)
    let plain = withoutDisguise(text[...])
    if plain.count == text.count { return symbol }
    return isMerged(symbol, linkageName: linkageName) ? mergedMark + string(plain) : string(plain)
  }

  /// What `swift demangle` puts before the name of code that several functions share.
  package static let mergedMark = "merged "

  /// Whether the optimizer merged functions of the same code into this one: the name is that of one of them.
  package static func isMerged(_ symbol: String, linkageName: String) -> Bool {
    // The mark of merging is the mangling's last, and the first that is read.
    isSwift(linkageName) && symbol.hasPrefix(mergedMark)
  }

  /// The name of a function whose code was merged with that of others.
  package static func markMerged(_ symbol: String) -> String {
    symbol.hasPrefix(mergedMark) ? symbol : mergedMark + symbol
  }

  /// Whether nobody wrote the function: thunks, partial applications, witnesses, metadata, outlined copies.
  package static func isCompilerGenerated(_ symbol: String, linkageName: String) -> Bool {
    guard isSwift(linkageName) else { return generatedNames.contains { linkageName.hasPrefix($0) } }
    let text = withoutDisguise(Array(symbol.utf8)[...])
    return generatedPrefixes.contains { text.starts(with: $0.utf8) } || symbol.contains(text: " value witness for ")
  }

  private static let asyncMain = "async_Main"

  /// Whether a function is the top level of an asynchronous `main.swift`, or its part behind an `await` (`async_MainTY1_`).
  ///
  /// It is the one function of Swift that has parts and no mangled name.
  package static func isTopLevelOfAsyncMain(_ linkageName: String) -> Bool {
    guard linkageName.hasPrefix(asyncMain) else { return false }
    let part = linkageName.utf8.dropFirst(asyncMain.utf8.count)
    let isPart = part.starts(with: "TQ".utf8) || part.starts(with: "TY".utf8)
    return part.isEmpty
      || isPart && part.last == UInt8(ascii: "_")
        && part.dropFirst(2).dropLast().allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
  }

  static let depthLimit = 16

  private static let generatedPrefixes = [
    "partial apply ", "reabstraction thunk ", "thunk ", "protocol witness ", "vtable thunk ", "dispatch thunk ",
    "@objc ",
    "@nonobjc ", "outlined ", "type metadata ", "generic type metadata ", "lazy protocol witness ", "lazy cache ",
    "associated type ", "base witness ", "method lookup ", "async function pointer ", "key path ", "back deployment ",
    "default associated ", "associated conformance ", "metadata instantiation ", "distributed thunk ",
    "distributed accessor ", "method descriptor ", "identity thunk ",
  ]

  // What swiftc emits under C names, and the inlined trap messages that it spells as function names.
  private static let generatedNames = [
    "Swift runtime failure: ", "objectdestroy", "__swift_", "block_copy_helper", "block_destroy_helper",
    "get_enum_tag_for_layout_string", "get_type_metadata ",
  ]

  package static func isSwift(_ linkageName: String) -> Bool {
    linkageName.hasPrefix("$s") || linkageName.hasPrefix("$S") || linkageName.hasPrefix("$e")
      || linkageName.hasPrefix("_$s") || linkageName.hasPrefix("_T0")
  }
}

// MARK: - Swift

extension ShortSymbol {
  static func string(_ text: ArraySlice<UInt8>) -> String { String(decoding: text, as: UTF8.self) }

  private static func swift(_ symbol: ArraySlice<UInt8>, depth: Int) -> String {
    guard depth < depthLimit else { return string(symbol) }
    let text = withoutDisguise(symbol)
    for kind in ["reabstraction thunk", "lazy protocol witness table accessor"] where text.starts(with: kind.utf8) {
      return kind
    }
    for prefix in ["@objc ", "@nonobjc ", "override ", "mutating "] where text.starts(with: prefix.utf8) {
      return swift(text.dropFirst(prefix.utf8.count), depth: depth + 1)
    }
    if text.starts(with: "static ".utf8) { return "static " + swift(text.dropFirst(7), depth: depth + 1) }
    if text.starts(with: "partial apply forwarder for ".utf8) {
      return "partial apply for " + swift(text.dropFirst(28), depth: depth + 1)
    }
    if text.starts(with: "protocol witness for ".utf8) {
      let rest = text.dropFirst(21)
      if let range = lastRange(of: " in conformance ", in: rest) {
        let requirement = swift(rest[..<range.lowerBound], depth: depth + 1)
        let type = rest[range.upperBound...]
        let end = firstRange(of: " : ", in: type)?.lowerBound ?? type.endIndex
        return "protocol witness for \(requirement) in conformance \(entity(type[..<end], depth: depth + 1))"
      }
    }
    if let end = endOfKind(text) { return string(text[..<end]) + swift(text[end...], depth: depth + 1) }
    return entity(text, depth: depth)
  }

  /// Drops what makes a copy or a part of a function differ from the function: it is the same code to a reader.
  static func withoutDisguise(_ symbol: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var text = symbol
    for _ in 0..<depthLimit {
      if text.starts(with: "merged ".utf8) {
        text = text.dropFirst(7)
      } else if let end = endOfResume(text) ?? endOfSpecialization(text) {
        text = text[end...]
      } else {
        break
      }
    }
    return text
  }

  /// The end of `(2) suspend resume partial function for `.
  private static func endOfResume(_ text: ArraySlice<UInt8>) -> Int? {
    guard text.first == UInt8(ascii: "("), let close = text.firstIndex(of: UInt8(ascii: ")")) else { return nil }
    guard text[(text.startIndex + 1)..<close].allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    for kind in [" await resume partial function for ", " suspend resume partial function for "]
    where text[(close + 1)...].starts(with: kind.utf8) {
      return close + 1 + kind.utf8.count
    }
    return nil
  }

  /// The end of `generic specialization <Swift.Int> of ` and its relatives.
  private static func endOfSpecialization(_ text: ArraySlice<UInt8>) -> Int? {
    let kinds = ["generic ", "function signature specialization ", "inlined generic function ", "prespecialized "]
    guard kinds.contains(where: { text.starts(with: $0.utf8) }) else { return nil }
    guard let open = text.firstIndex(of: UInt8(ascii: "<")), open - text.startIndex < 60 else { return nil }
    let isSpecialized = string(text[..<open]).contains(text: "specialization")
    guard isSpecialized || text.starts(with: "inlined ".utf8) else { return nil }
    var depth = 0
    var previous: UInt8 = 0
    // Angles alone: the demangler leaves a square bracket open after "Closure Propagated".
    for index in open..<text.endIndex {
      let byte = text[index]
      if byte == UInt8(ascii: "<") { depth += 1 }
      if byte == UInt8(ascii: ">"), previous != UInt8(ascii: "-") { depth -= 1 }
      if depth == 0 {
        return text[(index + 1)...].starts(with: " of ".utf8) ? index + 5 : nil
      }
      previous = byte
    }
    return nil
  }

  /// The end of words that say what is made of an entity: `default argument 0 of `, `type metadata accessor for `.
  static func endOfKind(_ text: ArraySlice<UInt8>) -> Int? {
    var index = text.startIndex
    while index < text.endIndex {
      let byte = text[index]
      for link in [" of ", " for ", " to "] where byte == UInt8(ascii: " ") && text[index...].starts(with: link.utf8) {
        return index + link.utf8.count
      }
      let isWord = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || " #-".utf8.contains(byte)
      guard isWord else { return nil }
      index += 1
    }
    return nil
  }

  /// A function, a variable or a type in its context.
  private static func entity(_ symbol: ArraySlice<UInt8>, depth: Int) -> String {
    guard depth < depthLimit else { return string(symbol) }
    var text = symbol
    if let local = localEntity(text, depth: depth) { return local }
    if text.starts(with: "(extension in ".utf8), let end = firstRange(of: "):", in: text) {
      text = text[end.upperBound...]
    }
    for fixity in [" infix", " prefix", " postfix"] {
      guard let range = firstRange(of: fixity + "(", in: text) ?? firstRange(of: fixity + "<", in: text) else {
        continue
      }
      let arguments = text[(range.upperBound - 1)...]
      guard let open = arguments.firstIndex(of: UInt8(ascii: "(")) else { continue }
      return operatorPath(text[..<range.lowerBound]) + labels(text[open...])
    }
    let (components, end) = path(text)
    // The first component is the module, unless there is nothing else.
    let name = (components.count > 1 ? components.dropFirst() : components[...]).joined(separator: ".")
    let rest = text[end...]
    return rest.first == UInt8(ascii: "(") ? name + labels(rest) : name
  }

  /// `closure #1 (…) -> … in CONTEXT` and `helper #1 (x: …) -> … in CONTEXT`.
  private static func localEntity(_ text: ArraySlice<UInt8>, depth: Int) -> String? {
    guard let split = firstRange(of: " in ", in: text, outsideBrackets: true) else { return nil }
    let head = text[..<split.lowerBound]
    guard let number = firstRange(of: " #", in: head) else { return nil }
    var end = number.upperBound
    while end < head.endIndex, head[end] >= 0x30, head[end] <= 0x39 { end += 1 }
    var name = string(head[..<end])
    if !name.hasPrefix("closure #"), !name.hasPrefix("implicit closure #"),
      let open = head[end...].firstIndex(of: UInt8(ascii: "("))
    {
      name += " " + labels(head[open...])
    }
    return name + " in " + swift(text[split.upperBound...], depth: depth + 1)
  }

  /// The names from the module down, and where they end: at arguments, at a type, or at the end.
  static func path(_ text: ArraySlice<UInt8>) -> (components: [String], end: Int) {
    var components: [String] = []
    var current: [UInt8] = []
    var index = text.startIndex
    var angles = 0
    scan: while index < text.endIndex {
      let byte = text[index]
      if angles > 0 {
        if byte == UInt8(ascii: "<") { angles += 1 }
        if byte == UInt8(ascii: ">"), text[index - 1] != UInt8(ascii: "-") { angles -= 1 }
      } else if byte == UInt8(ascii: "<") {
        angles = 1
      } else if byte == UInt8(ascii: ".") {
        components.append(string(current[...]))
        current = []
      } else if byte == UInt8(ascii: "(") {
        // A private name, `(name in _HASH)`, is where a name is; arguments are after one.
        let close = text[index...].firstIndex(of: UInt8(ascii: ")")) ?? text.endIndex
        guard current.isEmpty, let range = firstRange(of: " in ", in: text[index..<close]) else { break scan }
        current = Array(text[(index + 1)..<range.lowerBound])
        index = close
      } else if byte == UInt8(ascii: " ") {
        break scan
      } else {
        current.append(byte)
      }
      index += 1
    }
    components.append(string(current[...]))
    return (components, min(index, text.endIndex))
  }

  /// `Type.==` from `module.Type.==`: the operator is all that looks like one at the end, less the dot before it.
  private static func operatorPath(_ text: ArraySlice<UInt8>) -> String {
    var start = text.endIndex
    while start > text.startIndex, "/=-+!*%<>&|^~?.".utf8.contains(text[start - 1]) || text[start - 1] > 0x7f {
      start -= 1
    }
    if start < text.endIndex, text[start] == UInt8(ascii: ".") { start += 1 }
    let name = string(text[start...])
    guard start > text.startIndex else { return name }
    return (path(text[..<(start - 1)]).components.dropFirst() + [name]).joined(separator: ".")
  }

  /// `(rounds:_:)` from `(rounds: Swift.Int, (Swift.Int) -> Swift.Int) -> …`.
  private static func labels(_ text: ArraySlice<UInt8>) -> String {
    var result = "("
    var depth = 0
    var label: ArraySlice<UInt8>?
    var start = text.startIndex + 1
    var isEmpty = true
    var previous: UInt8 = 0
    scan: for index in text.indices {
      let byte = text[index]
      switch byte {
      case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "<"): depth += 1
      case UInt8(ascii: ")"), UInt8(ascii: "]"): depth -= 1
      case UInt8(ascii: ">") where previous != UInt8(ascii: "-"): depth -= 1
      case UInt8(ascii: ":") where depth == 1 && label == nil && start < index:
        let candidate = text[start..<index]
        if !candidate.contains(where: { " .([<".utf8.contains($0) }) { label = candidate }
      default: break
      }
      let isEnd = depth == 0
      if isEnd || (depth == 1 && byte == UInt8(ascii: ",")) {
        if !(isEnd && isEmpty) { result += (label.map(string) ?? "_") + ":" }
        label = nil
        start = index + 2
        if isEnd { break scan }
      } else if index > text.startIndex {
        isEmpty = false
      }
      previous = byte
    }
    // A name that was cut ends among its arguments.
    return depth > 0 ? result + "…" : result + ")"
  }

  static func firstRange(
    of pattern: String, in text: ArraySlice<UInt8>, outsideBrackets: Bool = false
  ) -> Range<Int>? {
    let pattern = Array(pattern.utf8)
    var depth = 0
    var index = text.startIndex
    while index + pattern.count <= text.endIndex {
      if depth == 0, text[index] == pattern[0], text[index...].starts(with: pattern) {
        return index..<(index + pattern.count)
      }
      if outsideBrackets {
        let byte = text[index]
        if "([<".utf8.contains(byte) { depth += 1 }
        if ")]".utf8.contains(byte) { depth -= 1 }
        if byte == UInt8(ascii: ">"), index > text.startIndex, text[index - 1] != UInt8(ascii: "-") { depth -= 1 }
      }
      index += 1
    }
    return nil
  }

  private static func lastRange(of pattern: String, in text: ArraySlice<UInt8>) -> Range<Int>? {
    let pattern = Array(pattern.utf8)
    var index = text.endIndex - pattern.count
    while index >= text.startIndex {
      if text[index...].starts(with: pattern) { return index..<(index + pattern.count) }
      index -= 1
    }
    return nil
  }
}

// MARK: - C++

extension ShortSymbol {
  /// `ns::Class::method` from `int ns::Class<int>::method<char>(int, char) const`.
  private static func cxx(_ symbol: [UInt8]) -> String {
    var result: [UInt8] = []
    var angles = 0
    var index = 0
    while index < symbol.count {
      let rest = symbol[index...]
      let byte = symbol[index]
      // A name of its own: its brackets and blanks are not those of arguments.
      if byte == UInt8(ascii: "(") || byte == UInt8(ascii: "o"),
        let whole = [
          "(anonymous namespace)", "operator()", "operator<<=", "operator<<", "operator<=>", "operator<=",
          "operator<", "operator>>=", "operator>>", "operator>=", "operator->*", "operator->", "operator>",
          "operator new",
          "operator delete",
        ].first(where: { rest.starts(with: $0.utf8) })
      {
        if angles == 0 { result += Array(whole.utf8) }
        index += whole.utf8.count
        continue
      }
      // A conversion: its name is a type, blanks and all.
      if angles == 0, byte == UInt8(ascii: "o"), rest.starts(with: "operator ".utf8) {
        return String(decoding: result + Array(rest.prefix { $0 != UInt8(ascii: "(") }), as: UTF8.self)
      }
      switch byte {
      case UInt8(ascii: "<"): angles += 1
      case UInt8(ascii: ">"): angles = max(0, angles - 1)
      case _ where angles > 0: break
      // The return type ends where a blank does; arguments end the name.
      case UInt8(ascii: " "): result = []
      case UInt8(ascii: "(") where !result.isEmpty: return String(decoding: result, as: UTF8.self)
      // A lambda has the name of what it is in: a function, or a variable.
      case UInt8(ascii: "{") where !result.isEmpty && rest.starts(with: "{lambda(".utf8):
        return String(decoding: result.dropLast(2), as: UTF8.self)
      default: result.append(byte)
      }
      index += 1
    }
    return result.isEmpty ? String(decoding: symbol, as: UTF8.self) : String(decoding: result, as: UTF8.self)
  }
}
