import CSymbols
import StallMonitor
import StallNaming
import StallReport

/// Finds the file of a build by its build ID, which is always checked in the file itself.
///
/// In this order: a file that was named, one under the directories to search, the module's path, and a separate debug
/// file. Of several with the same id, one that has debug information is taken.
final class DebugFiles {
  private let executables: [String]
  private let searchDirectories: [String]
  private let symbolizer: Symbolizer
  private lazy var index = makeIndex()
  private var identities: [String: ModuleIdentity] = [:]
  /// Builds for which nothing was found: where the line said that they lay, and which build lies there now.
  private(set) var missing: [String: (path: String?, found: String?)] = [:]
  /// Files that are cut off; they are not used.
  private(set) var cutOff: Set<String> = []
  /// Those of ``executables`` that have no names, and those whose build no line has.
  var useless: (nameless: [String], unused: [(path: String, buildID: String)]) {
    let known = executables.map { ($0, Self.identify($0)) }
    return (
      known.filter { $0.1.map { !$0.hasSymbols && !$0.hasDebugInformation } ?? false }.map(\.0),
      known.compactMap { path, found in found.map { (path, $0.buildID) } }.filter { !asked.contains($0.1) }
    )
  }
  // Builds that lines have.
  private var asked: Set<String> = []
  /// How many files were found for other architectures, by the architecture; they are not used.
  private(set) var otherArchitectures: [String: Int] = [:]

  /// Builds that are remembered at a time.
  private static let memoryLimit = 4096
  /// Files under the directories to search.
  private static let fileLimit = 1_000_000

  init(executables: [String], searchDirectories: [String], debugDirectories: [String]) {
    self.executables = executables
    self.searchDirectories = searchDirectories
    symbolizer = Symbolizer(byteBudget: 256 << 20, debugRoots: debugDirectories)
  }

  /// Why nothing can be looked up, or nil.
  static func obstacle() -> String? { Symbolizer.load() }

  /// The build ID and what else a file says of itself; nil if it is no ELF file of this machine, or has no build ID.
  static func identify(_ path: String) -> (buildID: String, hasDebugInformation: Bool, hasSymbols: Bool)? {
    var found = csymbols_identity()
    guard csymbols_identify(path, &found), found.build_id_length > 0 else { return nil }
    let id = withUnsafeBytes(of: &found.build_id) { hexadecimal($0.prefix(found.build_id_length)) }
    return (id, found.has_dwarf, found.has_symtab)
  }

  /// The build ID of an open file; nil if it is no ELF file of this machine, or has none.
  static func identify(descriptor: Int32) -> String? {
    var found = csymbols_identity()
    guard csymbols_identify_descriptor(descriptor, &found), found.build_id_length > 0 else { return nil }
    return withUnsafeBytes(of: &found.build_id) { hexadecimal($0.prefix(found.build_id_length)) }
  }

  /// Returns the functions at an offset; nil if there is no file of this build.
  func look(up buildID: String, modulePath: String?, offset: UInt64) -> [SymbolizedFrame]? {
    guard let bytes = Self.bytes(buildID) else { return nil }
    if identities[buildID] == nil {
      if asked.count < Self.memoryLimit { asked.insert(buildID) }
      if identities.count >= Self.memoryLimit { identities = [:] }
      identities[buildID] = identity(buildID, bytes, modulePath)
    }
    guard let identity = identities[buildID] else { return nil }
    let answer = symbolizer.symbolize(module: identity, address: offset, deadline: .max)
    symbolizer.trim()
    guard answer.problem == nil else {
      note(buildID, modulePath)
      return nil
    }
    return answer.frames
  }

  private func note(_ buildID: String, _ modulePath: String?) {
    // The vDSO is in no file.
    guard missing[buildID] == nil, missing.count < Self.memoryLimit, modulePath != "linux-vdso.so.1" else { return }
    missing[buildID] = (modulePath, modulePath.flatMap(Self.identify)?.buildID)
    if let modulePath { _ = mayUse(modulePath) }
  }

  /// Whether a file is whole and of this architecture; notes why not.
  private func mayUse(_ path: String) -> Bool {
    guard let header = try? ELFHeader(path) else { return false }
    if let architecture = header.otherArchitecture {
      otherArchitectures[architecture, default: 0] += 1
    } else if header.isCutOff {
      if cutOff.count < Self.memoryLimit { cutOff.insert(path) }
    } else {
      return true
    }
    return false
  }

  private func identity(_ buildID: String, _ bytes: [UInt8], _ modulePath: String?) -> ModuleIdentity {
    var candidates = index[buildID] ?? []
    if let modulePath, Self.identify(modulePath)?.buildID == buildID, mayUse(modulePath) {
      candidates.append(modulePath)
    }
    let known = candidates.map { ($0, Self.identify($0)) }
    let best =
      known.first { $0.1?.hasDebugInformation == true } ?? known.first { $0.1?.hasSymbols == true } ?? known.first
    return ModuleIdentity(path: best?.0 ?? modulePath ?? "", buildID: bytes)
  }

  private func makeIndex() -> [String: [String]] {
    var index: [String: [String]] = [:]
    func add(_ path: String) {
      guard mayUse(path), let id = Self.identify(path)?.buildID else { return }
      index[id, default: []].append(path)
    }
    executables.forEach(add)
    searchDirectories.lazy.flatMap(FileTree.init).prefix(Self.fileLimit).forEach(add)
    return index
  }

  /// A build ID of a report as bytes; nil if it is invalid.
  static func bytes(_ hexadecimal: String) -> [UInt8]? {
    let digits = Array(hexadecimal.utf8)
    guard !digits.isEmpty, digits.count % 2 == 0, digits.count <= 128 else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let byte = UInt8(String(decoding: digits[index..<(index + 2)], as: UTF8.self), radix: 16) else {
        return nil
      }
      bytes.append(byte)
    }
    return bytes
  }
}
