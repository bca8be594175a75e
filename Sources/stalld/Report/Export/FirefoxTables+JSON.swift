import StallReport

extension FirefoxTables {
  /// `profile.libs`.
  func write(libraries json: inout JSONWriter) {
    json.array(libraryList) { json, library in
      let name = library.path.lastPathPart ?? library.path
      json.object { json in
        for (key, text) in [
          ("arch", ""), ("name", name), ("path", library.path), ("debugName", name), ("debugPath", library.path),
          ("breakpadId", Self.breakpadID(library.buildID)), ("codeId", library.buildID),
        ] {
          json.key(key)
          json.value(text)
        }
      }
    }
  }

  /// `profile.shared`; texts that others added are in it.
  func write(shared json: inout JSONWriter, libraryNames: [Int]) {
    table(&json, "stackTable", nodeList.count) {
      column(&$0, "frame", nodeList.map(\.frame))
      column(&$0, "prefix", nodeList.map(\.prefix), none: true)
    }
    table(&json, "frameTable", frameList.count) { json in
      column(&json, "address", frameList.map { $0[2] })
      column(&json, "inlineDepth", frameList.map { $0[3] })
      column(&json, "category", frameList.map { $0[4] }, none: true)
      column(&json, "subcategory", frameList.map { $0[4] < 0 ? -1 : 0 }, none: true)
      column(&json, "func", frameList.map { $0[0] })
      for name in ["nativeSymbol", "innerWindowID"] { column(&json, name, frameList.map { _ in -1 }, none: true) }
      column(&json, "line", frameList.map { $0[1] }, none: true)
      column(&json, "column", frameList.map { _ in -1 }, none: true)
    }
    table(&json, "funcTable", functionList.count) { json in
      column(&json, "name", functionList.map { $0[0] })
      for name in ["isJS", "relevantForJS"] {
        json.key(name)
        json.array(functionList) { json, _ in json.value(false) }
      }
      column(&json, "resource", functionList.map { $0[1] })
      column(&json, "source", functionList.map { $0[2] }, none: true)
      for name in ["lineNumber", "columnNumber"] { column(&json, name, functionList.map { _ in -1 }, none: true) }
    }
    table(&json, "resourceTable", libraryList.count) {
      // A library.
      column(&$0, "type", libraryList.map { _ in 1 })
      column(&$0, "lib", Array(libraryList.indices))
      column(&$0, "name", libraryNames)
      column(&$0, "host", libraryList.map { _ in -1 }, none: true)
    }
    table(&json, "nativeSymbols", 0) { json in
      for name in ["libIndex", "address", "name", "functionSize"] { column(&json, name, []) }
    }
    table(&json, "sources", sourceList.count) { json in
      column(&json, "id", sourceList.map { _ in -1 }, none: true)
      column(&json, "filename", sourceList)
      for name in ["startLine", "startColumn"] { column(&json, name, sourceList.map { _ in 1 }) }
      column(&json, "sourceMapURL", sourceList.map { _ in -1 }, none: true)
    }
    json.key("stringArray")
    json.array(textList) { $0.value($1) }
  }

  private func table(_ json: inout JSONWriter, _ name: String, _ length: Int, _ columns: (inout JSONWriter) -> Void) {
    json.key(name)
    json.object { json in
      columns(&json)
      json.key("length")
      json.value(length)
    }
  }

  /// A column; with `none`, -1 is null.
  private func column(_ json: inout JSONWriter, _ name: String, _ values: [Int], none: Bool = false) {
    json.key(name)
    json.array(values) { json, value in if none, value < 0 { json.null() } else { json.value(value) } }
  }

  /// A build ID as symbol servers have it: a GUID of its first half, and an age of 0.
  private static func breakpadID(_ buildID: String) -> String {
    let digits = Array(buildID.uppercased())
    guard digits.count >= 32 else { return "" }
    let bytes = stride(from: 0, to: 32, by: 2).map { String(digits[$0...($0 + 1)]) }
    return ([3, 2, 1, 0, 5, 4, 7, 6] + (8..<16)).map { bytes[$0] }.joined() + "0"
  }
}
