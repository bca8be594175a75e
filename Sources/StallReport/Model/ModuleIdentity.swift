/// An ELF module of a process: which file, and which build of it.
package struct ModuleIdentity: Hashable, Sendable {
  /// The path as mapped.
  ///
  /// For the main executable prefer `/proc/self/exe`, which names the running file even after it was deleted or replaced.
  /// ``vdsoPath`` is the kernel's image.
  package var path: String
  /// The GNU build ID as it is in memory; empty if the module has none.
  package var buildID: [UInt8]
  /// Whether a separate debug file may be opened for it.
  ///
  /// Not for the system's libraries: that of libc alone takes longer to read than all else, for names that nobody asked for.
  package var usesDebugFile = true
  /// Whose processes the file is believed for; empty for everybody's.
  ///
  /// Modules of the same path and build are different ones if this differs.
  package var audience = ""

  package init(path: String, buildID: [UInt8], usesDebugFile: Bool = true, audience: String = "") {
    self.path = path
    self.buildID = buildID
    self.usesDebugFile = usesDebugFile
    self.audience = audience
  }

  /// The path that represents the vDSO of this process.
  package static let vdsoPath = "[vdso]"
}

/// What the names of a frame are looked up by, beside its offset: no memory of the process, whose module may be unloaded by then.
package struct SymbolSource: Hashable, Sendable {
  package var module: ModuleIdentity
  /// Whether the module is the main executable.
  package var isExecutable: Bool

  package init(module: ModuleIdentity, isExecutable: Bool) {
    self.module = module
    self.isExecutable = isExecutable
  }
}
