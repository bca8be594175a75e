/// The causes that a report may have (`stall.cause` in the schema).
enum ReportCause: String, CaseIterable, Sendable {
  case running, lock, io, sleep, starved, throttled, fault, stopped, unknown
}
