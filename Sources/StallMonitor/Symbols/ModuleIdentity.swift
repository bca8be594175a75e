/// An ELF module of a process: which file, and which build of it.
struct ModuleIdentity: Hashable, Sendable {
  /// The path as mapped.
  ///
  /// For the main executable prefer `/proc/self/exe`, which names the running file even after it was deleted or replaced.
  /// ``vdsoPath`` is the kernel's image.
  var path: String
  /// The GNU build id as it is in memory; empty if the module has none.
  var buildID: [UInt8]
  /// Whether a separate debug file may be opened for it.
  ///
  /// Not for the system's libraries: that of libc alone takes longer to read than all else, for names that nobody asked for.
  var usesDebugFile = true

  /// The path that stands for the vDSO of this process.
  static let vdsoPath = "[vdso]"
}
