/// What outlives the process of one loop's stalls: the record of the stall under way, and the loop's note to the agent.
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
