/// The modes of a loop, for all threads.
struct KnownModes {
  fileprivate(set) var states: [ModeState] = []
  /// Further modes, for which other threads or blocks have asked.
  private var requested: [Int32] = []

  func state(of id: Int32) -> ModeState? { states.first { $0.id == id } }

  var identifiers: [Int32] { states.map(\.id) + requested.filter { state(of: $0) == nil } }

  fileprivate mutating func request(_ id: Int32) {
    if state(of: id) == nil && !requested.contains(id) { requested.append(id) }
  }
}

extension Loop {
  /// The modes that the loop knows: those that were run in, added to, made common, or that work was scheduled for.
  ///
  /// Takes a short lock.
  public var allModes: [Mode] { knownModes.withLock(\.identifiers).map(Mode.init(id:)) }

  /// Notes a mode for which something was scheduled; the default and the common ones are known.
  @inlinable
  func note(_ mode: Mode) {
    if mode.id > Mode.default.id { noteUncommon(mode) }
  }

  @usableFromInline
  @inline(never)
  func noteUncommon(_ mode: Mode) { if !hasEnded { knownModes.withLock { $0.request(mode.id) } } }

  /// The mode that the innermost run serves; nil outside of a run.
  ///
  /// Makes a string and takes a short lock; taking a ``snapshot`` does neither.
  public var currentMode: Mode? {
    guard let text = published.modeText else { return nil }
    return Mode(text.description)
  }

  /// Makes a mode common: what was or will be added to `.common` works in it, too.
  ///
  /// There is no way back.
  ///
  /// On another thread than the loop's this takes effect before the loop's next pass.
  public func addCommonMode(_ mode: Mode) {
    guard mode != .common else { return }
    change { self.makeCommon(mode) }
  }

  private func makeCommon(_ mode: Mode) {
    assertOwner()
    let state = makeMode(mode.id)
    guard !state.isCommon else { return }
    state.isCommon = true
    observerGeneration &+= 1
    addSpreadTimers(to: state)
    var refused: [(source: DescriptorSource, error: LoopError)] = []
    for source in descriptors.all where source.keys.isCommonItem(in: state) && !source.keys.contains(mode.id) {
      do throws(LoopError) { try watch(source, in: state) } catch { refused.append((source, error)) }
    }
    // When all others are watched: what this makes the loop absorb may be about them.
    for (source, error) in refused { source.fail(error) }
    if current?.toOpaque() == Unmanaged.passUnretained(state).toOpaque() { unpark() }
  }

  /// The loop's state for a mode, nil if the loop does not know the mode.
  func findMode(_ id: Int32) -> ModeState? {
    assertOwner()
    return id >= 0 && Int(id) < modes.count ? modes[Int(id)] : nil
  }

  /// The same without counting references.
  @inline(__always)
  func findModeUnretained(_ id: Int32) -> Unmanaged<ModeState>? {
    assertOwner()
    return id >= 0 && Int(id) < modeTable.count ? modeTable[Int(id)] : nil
  }

  /// The loop's state for a mode, made if needed; the common items for `.common`.
  func makeMode(_ id: Int32) -> ModeState {
    assertOwner()
    if id == Mode.common.id { return commonItems }
    if id == Timer.spreadKey { return spreadItems }
    if let known = findMode(id) { return known }
    while modes.count <= Int(id) { modes.append(nil) }
    let state = ModeState(id: id, text: ModeNames.text(of: id))
    modes[Int(id)] = state
    modeTable.deallocate()
    modeTable = .allocate(capacity: modes.count)
    _ = modeTable.initialize(from: modes.map { $0.map(Unmanaged.passUnretained) })
    knownModes.withLock { $0.states.append(state) }
    return state
  }

  /// Whether something would be served in a mode; observers don't count.
  @inline(__always)
  func isEmpty(_ mode: ModeState) -> Bool {
    assertOwner()
    // The main queue may have work at any time.
    if mode.isCommon && hasMainQueue && !isServingMainQueue { return false }
    return mode.sourceCount == 0 && hasNoMore(mode)
  }

  @inline(never)
  private func hasNoMore(_ mode: ModeState) -> Bool {
    assertOwner()
    if mode.timers.pointee.count > 0 { return false }
    if mode.isCommon && (commonItems.sourceCount > mode.exceptedSources || commonTimers.pointee.count > 0) {
      return false
    }
    if !idleWork.isEmpty || !markedFlushPoints.isEmpty { return false }
    if firingTimer != nil && isFiringTimer(in: mode) { return false }
    if !ring.isEmpty && ring.contains(where: { matches($0, mode) }) { return false }
    return !inbox.mayHaveWork
  }

  /// Whether a block for these modes runs in a mode.
  @inline(__always)
  func matches(_ modes: Int32, _ mode: ModeState) -> Bool {
    if modes == Mode.common.id { return mode.isCommon }
    if modes > 0 { return modes == mode.id }
    return ModeSets.contains(modes, mode)
  }
}
