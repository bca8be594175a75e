import TestSupport
import Testing

/// Captures of threads of the test process, which has one memory to capture into.
@Suite(.serialized, .takingTurns)
enum CapturesInThisProcess {}

/// Victims: processes of their own, judged by what they write.
@Suite enum WatchedHosts {}
