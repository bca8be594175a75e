import LoopEngine

/// What the agent's parts know at the moment of a scrape.
struct MetricsSample {
  /// One output: a label, and what it did since it was opened.
  struct Output {
    /// ``LineDestination/name``, such as `file /var/log/stalld/stalls.jsonl`.
    var name: String
    var lines: UInt64 = 0
    var bytes: UInt64 = 0
    var writeErrors: UInt64 = 0
    var droppedLines: UInt64 = 0
    var rotations: UInt64 = 0
    var queuedLines = 0
    /// For how long nothing was written while lines wait; 0 unless that is too long.
    var stuckSeconds = 0.0
  }

  struct SymbolCache {
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    var bytes = 0
    var unnamedLines: UInt64 = 0
    var restarts: UInt64 = 0
  }

  var connections = 0
  var openStalls = 0
  /// Bytes of lines that are read and not done with, and the limit for them.
  var queuedBytes = 0
  var queuedBytesLimit = 0
  var outputs: [Output] = []
  var symbols: SymbolCache?
  var details: DetailStore.Counters?
  /// The main loop's.
  var loop: Loop.Statistics?
}
