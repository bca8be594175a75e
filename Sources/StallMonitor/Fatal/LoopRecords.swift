/// The data of one loop's stalls that remains after the process has ended: the record of the
/// current stall, and a slot on the recovery page.
struct LoopRecords: Sendable {
  /// Where a stall is kept that the process might end in.
  var record: MappedRecord?
  /// Where the loop notes for the agent that a stall is over.
  var note: RecoveryPage.Slot?

  /// Where the loop's pulse stores the end of a followed turn; nil if nowhere.
  func marks(sentinel: ForkSentinel) -> EndMarks? {
    guard record != nil || note != nil else { return nil }
    return EndMarks(
      record?.endMark, note?.endMarks.copy, note?.endMarks.page, owners: [record, note], sentinel: sentinel)
  }
}

/// Makes the records of loops, as far as this process keeps any.
struct LoopRecordsFactory: Sendable {
  let sentinel: ForkSentinel
  /// Whether stalls are recorded for the case that the process ends in one.
  let keepsRecords: Bool
  /// Where loops note for the agent that a stall is over; nil without an agent.
  var recovery: RecoveryPage?

  /// The records of one more loop.
  func make() -> LoopRecords {
    LoopRecords(record: keepsRecords ? MappedRecord(sentinel: sentinel) : nil, note: recovery?.makeSlot())
  }
}
