/// Timers in several modes, apart from the common case of one.
extension Loop {
  /// Takes a timer out of one of its modes.
  ///
  /// One that is in all common modes is then in the others one by one, and reaches a mode that becomes common later: CoreFoundation's rule.
  @inline(never)
  func removeFromSeveral(_ timer: Timer, _ key: Int32) {
    assertOwner()
    if key == Mode.common.id && timer.has(Timer.spreadKey) {
      for mode in commonModes { drop(timer, mode.id) }
      drop(timer, Timer.spreadKey)
      return
    }
    if timer.has(Mode.common.id), let mode = findMode(key), mode.isCommon {
      addOwned(timer, Timer.spreadKey)
      for other in commonModes where other !== mode { addOwned(timer, other.id) }
      drop(timer, Mode.common.id)
    }
    drop(timer, key)
  }

  /// Puts a timer into all common modes again.
  func gather(_ timer: Timer) {
    assertOwner()
    let spread = commonModes.map(\.id) + [Timer.spreadKey]
    // The loop releases it with its last mode, so that it is not the last.
    memberships.withLock { _ in timer.others = (timer.others ?? []) + [(Mode.common.id, TimerHeap.noSlot)] }
    for key in spread { drop(timer, key) }
    if timer.isFiring { return }
    timerDidChange(timer, isMove: false)
  }

  /// A mode becomes common: those that are in the common modes one by one come to it as well.
  func addSpreadTimers(to mode: ModeState) {
    assertOwner()
    for timer in spreadItems.timers.pointee.all() { timer._withUnsafeGuaranteedRef { addOwned($0, mode.id) } }
  }

  private var commonModes: [ModeState] {
    assertOwner()
    return modes.compactMap { $0 }.filter(\.isCommon)
  }

  private func drop(_ timer: Timer, _ key: Int32) {
    assertOwner()
    if timer.key == key {
      guard let other = timer.others?.last else { return leaveOnlyMode(timer) }
      takeOut(timer, key, timer.slot)
      memberships.withLock { _ in
        timer.key = other.key
        timer.slot = other.slot
        timer.others!.removeLast()
        if timer.others!.isEmpty { timer.others = nil }
      }
    } else if let position = timer.others?.firstIndex(where: { $0.key == key }) {
      takeOut(timer, key, timer.others![position].slot)
      memberships.withLock { _ in
        timer.others!.remove(at: position)
        if timer.others!.isEmpty { timer.others = nil }
      }
    }
  }
}
