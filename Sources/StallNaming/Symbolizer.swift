import CSymbols
import PlatformLibc
import StallReport

/// Finds function names, files, lines and inlined frames for addresses in ELF modules.
///
/// **Threads.** An instance belongs to one thread. Call ``load()`` on any thread, and ``prepareThread()``
/// on the thread that will use the instance, both before the first stall: they may take the loader's lock. Nothing else
/// here does.
///
/// **Failure.** Never fails the service: without libdw, without the file, or with a file of another build the answer is
/// empty and says why. Corrupt files give less, never a wrong build's names.
///
/// **Memory.** Bounded by `byteBudget`, copies of what was read of files included. The module asked for last may
/// overshoot until another one is asked for or ``trim()`` is called, which is right after a report.
///
/// **Cost.** Warm well under 1 µs a frame. The first look-up in a module reads and sorts its symbols (linear time), the
/// first one in a compilation unit reads that unit's functions and lines.
package final class Symbolizer {
  private struct Key: Hashable {
    var module: Int
    var address: UInt64
  }

  /// An opened module, or the knowledge that it cannot be opened.
  private final class Module {
    let number: Int
    let handle: OpaquePointer?
    let problem: String?
    var bytes = 0
    var lastUse = 0
    /// Whether libraries are linked into it, by their names.
    private var links: [String: Bool] = [:]

    init(number: Int, handle: OpaquePointer?, problem: String?) {
      self.number = number
      self.handle = handle
      self.problem = problem
    }

    deinit {
      csymbols_close(handle)
    }

    /// Whether a library is linked into the module; nil if the deadline passed before that was found.
    func links(_ library: LinkedLibrary, deadline: UInt64) -> Bool? {
      guard let handle else { return false }
      if let known = links[library.name] { return known }
      let names = library.anchors.map { strdup($0) }
      defer { for name in names { free(name) } }
      var isLinked = false
      let status = names.map { UnsafePointer($0) }.withUnsafeBufferPointer {
        csymbols_defines(handle, $0.baseAddress, $0.count, deadline, &isLinked)
      }
      guard status == CSYMBOLS_COMPLETE else { return nil }
      links[library.name] = isLinked
      return isLinked
    }
  }

  /// Opens the files of modules that other users have named: a descriptor, which the symbolizer
  /// closes, or -1 if there is only a debug file.
  ///
  /// Called each time a module has to be read; its checks apply to all files that are read.
  package typealias Opener = (ModuleIdentity) -> Int32

  private let byteBudget: Int
  private let opener: Opener?
  /// Called before something is read of a module that is open.
  package var willRead: ((ModuleIdentity) -> Void)?
  package let debugRoots: [String]
  private let createdAt: UInt64
  private var modules: [ModuleIdentity: Module] = [:]
  private var last: (identity: ModuleIdentity, module: Module)?
  private var moduleBytes = 0
  private var nextNumber = 0
  private var clock = 0
  // Two generations in place of a list in order of use: a hit moves an answer into the young one, and when that is full
  // the old one is dropped. Same bound, no links to keep.
  private var young: [Key: Symbolication] = [:]
  private var old: [Key: Symbolication] = [:]
  private var youngBytes = 0
  private var oldBytes = 0
  private let scratch = UnsafeMutablePointer<csymbols_frame>.allocate(
    capacity: Int(CSYMBOLS_MAX_FRAMES)
  )

  /// Modules known at a time, opened or not: a service that loads and unloads libraries forever stays bounded.
  private static let moduleLimit = 512

  /// Makes a symbolizer that opens nothing yet.
  ///
  /// - Parameters:
  ///   - byteBudget: Heap for all tables and answers; a quarter of it is for answers.
  ///   - debugRoots: Where separate debug files lie; the first directory that has one is taken.
  ///   - opener: Opens the files, where other users name them. Each is then opened once and stays open, no step takes much more memory than the budget, and
  ///     debug files are only taken from directories that nobody but root and their owner can write to.
  package init(
    byteBudget: Int = 8 << 20, debugRoots: [String] = ["/usr/lib/debug"], opener: Opener? = nil
  ) {
    self.byteBudget = max(byteBudget, 0)
    self.opener = opener
    self.debugRoots = debugRoots
    var now = timespec()
    // The clock that files are stamped with: it lags the exact one by up to a tick of the kernel's clock.
    clock_gettime(CLOCK_REALTIME_COARSE, &now)
    createdAt = UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
  }

  deinit {
    scratch.deallocate()
  }

  /// Opens libdw, once a process.
  ///
  /// Takes the loader's lock: call it when the monitor starts, never during a stall.
  ///
  /// - Returns: Why there will be no symbols, or nil.
  @discardableResult
  package static func load() -> String? {
    _ = csymbols_load()
    return csymbols_problem().map { String(cString: $0) }
  }

  /// Makes this thread ready to use an instance with no lock of the loader's being taken later.
  package static func prepareThread() {
    csymbols_prepare_thread()
  }

  /// Heap held for modules and answers, in bytes; what libdw holds is estimated.
  package var bytes: Int { moduleBytes + youngBytes + oldBytes }

  /// The functions at an address, innermost first.
  ///
  /// - Parameters:
  ///   - identity: The module that the address lies in.
  ///   - address: An ELF virtual address (not a file offset, not a run-time address); for callers the return address − 1.
  ///   - deadline: CLOCK_MONOTONIC in ns. It interrupts the building of tables, in steps; one step that cannot be divided
  ///     (sorting symbols, one unit's lines) is either finished or, if it is known to be long, not begun.
  /// - Returns: What is known. Incomplete answers are not kept, so that the next look-up continues.
  package func symbolize(module identity: ModuleIdentity, address: UInt64, deadline: UInt64) -> Symbolication {
    let module = self.module(for: identity)
    let key = Key(module: module.number, address: address)
    if let answer = young[key] { return answer }
    if let answer = old.removeValue(forKey: key) {
      oldBytes -= Self.cost(of: answer)
      keep(answer, for: key)
      return answer
    }
    guard module.handle != nil else { return Symbolication(frames: [], isIncomplete: false, problem: module.problem) }
    willRead?(identity)
    let answer = lookUp(address, in: current(module, identity), deadline: deadline)
    if !answer.isIncomplete { keep(answer, for: key) }
    shed(sparing: identity)
    return answer
  }

  /// Brings the heap under the budget, also by letting go of the module used last.
  ///
  /// Debug information goes first: symbols are small, and enough for a name.
  package func trim() {
    shed(sparing: nil)
  }

  /// Releases all modules and answers.
  package func release() {
    (modules, last, moduleBytes) = ([:], nil, 0)
    (young, old, youngBytes, oldBytes) = ([:], [:], 0, 0)
  }

  private func module(for identity: ModuleIdentity) -> Module {
    clock += 1
    if let last, last.identity == identity {
      last.module.lastUse = clock
      return last.module
    }
    let module = modules[identity] ?? open(identity)
    module.lastUse = clock
    last = (identity, module)
    return module
  }

  /// The same module, or a fresh one if its file was changed under us: what is mapped is then not to be trusted.
  private func current(_ module: Module, _ identity: ModuleIdentity) -> Module {
    guard let handle = module.handle, csymbols_changed(handle) else { return module }
    forget(identity)
    let fresh = open(identity)
    fresh.lastUse = clock
    last = (identity, fresh)
    return fresh
  }

  private func open(_ identity: ModuleIdentity) -> Module {
    var problem: UnsafePointer<CChar>?
    var handle: OpaquePointer?
    if identity.path == ModuleIdentity.vdsoPath {
      var length = 0
      let base = csymbols_vdso(&length)
      handle = base.flatMap { csymbols_open_image($0, length, &problem) }
    } else {
      handle = withRoots(identity.usesDebugFile ? debugRoots : []) { roots in
        identity.path.withCString { path in
          identity.buildID.withUnsafeBufferPointer { id in
            var source = csymbols_source(
              path: path,
              build_id: id.baseAddress,
              build_id_length: id.count,
              debug_roots: roots.baseAddress,
              debug_root_count: roots.count,
              not_changed_after: createdAt,
              is_strict: opener != nil,
              descriptor: opener?(identity) ?? -1,
              budget: opener == nil ? 0 : byteBudget
            )
            return csymbols_open(&source, &problem)
          }
        }
      }
    }
    nextNumber += 1
    let module = Module(number: nextNumber, handle: handle, problem: problem.map { String(cString: $0) })
    module.bytes = 256 + identity.path.utf8.count + (handle.map { csymbols_bytes($0) } ?? 0)
    moduleBytes += module.bytes
    if modules.count >= Self.moduleLimit, let oldest = modules.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      forget(oldest.key)
    }
    modules[identity] = module
    return module
  }

  private func withRoots<Result>(
    _ roots: [String], _ body: (UnsafeBufferPointer<UnsafePointer<CChar>?>) -> Result
  ) -> Result {
    let copies = roots.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    return copies.map { UnsafePointer($0) }.withUnsafeBufferPointer(body)
  }

  private func forget(_ identity: ModuleIdentity) {
    guard let module = modules.removeValue(forKey: identity) else { return }
    moduleBytes -= module.bytes
    if last?.identity == identity { last = nil }
  }

  private func lookUp(_ address: UInt64, in module: Module, deadline: UInt64) -> Symbolication {
    guard let handle = module.handle else {
      return Symbolication(frames: [], isIncomplete: false, problem: module.problem)
    }
    var count = 0
    let status = csymbols_lookup(handle, address, deadline, scratch, &count)
    var isIncomplete = status != CSYMBOLS_COMPLETE
    let frames = (0..<count).map { index in
      var frame = SymbolizedFrame(scratch[index]) { csymbols_qualified_name(handle, scratch + index, deadline) }
      guard let isOfLibrary = isOfLinkedLibrary(frame, scratch[index], in: module, deadline: deadline) else {
        isIncomplete = true
        return frame
      }
      frame.isOfLinkedLibrary = isOfLibrary
      return frame
    }
    let bytes = 256 + csymbols_bytes(handle)
    moduleBytes += bytes - module.bytes
    module.bytes = bytes
    return Symbolication(frames: frames, isIncomplete: isIncomplete, problem: nil)
  }

  /// `SymbolizedFrame.isOfLinkedLibrary`; nil if the deadline passed before that was found.
  private func isOfLinkedLibrary(
    _ frame: SymbolizedFrame, _ source: csymbols_frame, in module: Module, deadline: UInt64
  ) -> Bool? {
    guard let name = frame.linkageName, let library = LinkedLibrary.candidate(linkageName: name, symbol: frame.symbol)
    else { return false }
    // The libraries are shipped without debug information. What Swift compiles of them into a module has some, but neither
    // a file nor a line of a declaration.
    if source.described || frame.file != nil { return !source.declared && frame.file == nil }
    return module.links(library, deadline: deadline)
  }

  private func keep(_ answer: Symbolication, for key: Key) {
    let limit = byteBudget / 8
    let cost = Self.cost(of: answer)
    if youngBytes + cost > limit {
      (old, oldBytes) = (young, youngBytes)
      (young, youngBytes) = ([:], 0)
    }
    guard cost <= limit else { return }
    young[key] = answer
    youngBytes += cost
  }

  /// An estimate in bytes: the strings, the array, and the dictionary's slot with its slack.
  private static func cost(of answer: Symbolication) -> Int {
    answer.frames.reduce(160) { sum, frame in
      let strings = [frame.symbol, frame.shortSymbol, frame.linkageName, frame.file]
      return strings.reduce(sum + MemoryLayout<SymbolizedFrame>.stride) { $0 + ($1.map { 32 + $0.utf8.count } ?? 0) }
    }
  }

  private func shed(sparing spared: ModuleIdentity?) {
    let limit = byteBudget - byteBudget / 4
    guard moduleBytes > limit else { return }
    let leastUsedFirst = modules.filter { $0.key != spared && $0.value.handle != nil }
      .sorted { $0.value.lastUse < $1.value.lastUse }
    for (_, module) in leastUsedFirst where moduleBytes > limit {
      csymbols_trim(module.handle)
      let bytes = 256 + (module.handle.map { csymbols_bytes($0) } ?? 0)
      moduleBytes += bytes - module.bytes
      module.bytes = bytes
    }
    for (identity, _) in leastUsedFirst where moduleBytes > limit {
      forget(identity)
    }
  }
}
