import Testing

/// Victims one at a time: each is timed.
@Suite(
  .serialized, .takingTurns,
  .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
struct Ecosystem {}
