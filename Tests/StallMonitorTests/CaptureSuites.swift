import Testing

/// The suites that take stacks in the test's own process: a process takes one at a time, so they take turns.
@Suite(.serialized)
enum CaptureSuites {}
