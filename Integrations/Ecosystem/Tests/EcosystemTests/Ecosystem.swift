import Testing

/// Victims one at a time: each is timed.
@Suite(.serialized, .takingTurns)
struct Ecosystem {}
