import CLinux
import CUnwind
import PlatformLibc
import StallReport

/// A module (executable, shared library or vDSO) in which code of the stack lies.
package final class LoadedModule: Sendable {
  /// The file, as one can open it; `linux-vdso.so.1` for the vDSO.
  package let path: String
  /// The GNU build ID in lower-case hexadecimal, or nil if the module has none.
  package let buildID: String?
  package let range: Range<UInt64>
  /// What to subtract from an address to get the ELF virtual address.
  package let loadBias: UInt64
  package let isMainExecutable: Bool
  /// What its symbols are asked for by.
  package let identity: ModuleIdentity

  /// `file` is what the file is opened by, if that is another path.
  package init(
    path: String, file: String? = nil, buildID: [UInt8], range: Range<UInt64>, loadBias: UInt64, isMainExecutable: Bool
  ) {
    self.path = path
    self.buildID = buildID.isEmpty ? nil : hexadecimal(buildID)
    // The vDSO is in no file.
    let vdso = path == "linux-vdso.so.1" ? ModuleIdentity.vdsoPath : nil
    identity = ModuleIdentity(path: file ?? vdso ?? path, buildID: buildID)
    self.range = range
    self.loadBias = loadBias
    self.isMainExecutable = isMainExecutable
  }

  fileprivate func isSame(as other: LoadedModule) -> Bool {
    // Without a build ID another build may lie at the same place.
    buildID != nil && identity == other.identity && range == other.range && loadBias == other.loadBias
      && path == other.path
  }
}

/// Finds the modules of a process's addresses, without the dynamic loader's lock.
///
/// Used by one thread at a time.
package struct ModuleMap {
  private let process: ProcessHandle
  private var modules: [LoadedModule] = []
  // Those of before the last flush: one with a build ID that is found unchanged stays the same object.
  private var former: [LoadedModule] = []
  private let executablePath: String
  /// What it is opened by.
  private let executableFile: String

  package init(executablePath: String, of process: ProcessHandle) {
    self.process = process
    self.executablePath = executablePath
    executableFile = Self.isExecuted(executablePath, by: process) ? process.directory + "/exe" : executablePath
  }

  /// Whether a path is that of the file that the kernel has executed, which may have been removed or replaced; procfs still
  /// opens it.
  ///
  /// The main program is another file if the dynamic loader was executed with it as its argument.
  private static func isExecuted(_ path: String, by process: ProcessHandle) -> Bool {
    if process.isOwn, clinux_has_interpreter() { return true }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4096) { buffer in
      let count = readlink(process.directory + "/exe", buffer.baseAddress!, buffer.count)
      // As the path was made: a name need not be UTF-8.
      return count <= 0 || String(decoding: buffer[..<count], as: UTF8.self) == path
    }
  }

  /// Forgets all modules: they may have been unloaded.
  ///
  /// One with a build ID that is found again as it was is the same object as before, within ``formerLimit``.
  package mutating func flush() {
    former = modules + former.filter { old in !modules.contains { $0 === old } }.prefix(Self.formerLimit)
    modules.removeAll(keepingCapacity: true)
  }

  private static let formerLimit = 64

  /// The module of a code address, or nil: code made at run time, or garbage.
  package mutating func module(at address: UInt64) -> LoadedModule? {
    if let known = modules.first(where: { $0.range.contains(address) }) { return known }
    var found = cunwind_module()
    guard cunwind_find_module(process.cunwind, address, &found), found.start <= address, address < found.end
    else { return nil }
    let name = withUnsafeBytes(of: &found.path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let buildID = withUnsafeBytes(of: &found.build_id) { Array($0.prefix(Int(found.build_id_length))) }
    let module = LoadedModule(
      path: name.isEmpty ? executablePath : name, file: name.isEmpty ? executableFile : nil, buildID: buildID,
      range: found.start..<found.end, loadBias: found.load_bias, isMainExecutable: name.isEmpty)
    let known = former.first { $0.isSame(as: module) } ?? module
    modules.append(known)
    return known
  }
}
