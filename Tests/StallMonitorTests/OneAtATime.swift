import TestSupport
import Testing

/// Tests that run one after the other: a process has one memory to capture into, and hosts that are judged by their times need the
/// machine to themselves.
@Suite(.serialized, .takingTurns)
enum OneAtATime {}
