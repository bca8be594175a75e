import ArgumentParser
import CLinux
import Glibc
import StallMonitor
import StallNaming
import StallReport

/// `stalld name-worker`: the process of the agent's that reads programs' files; see ``NameWorkerProcess``.
struct NameWorkerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "name-worker",
    abstract: "Looks up function names for stalld run, over the socket at descriptor 0.",
    discussion: """
      Example:
        stalld run

      The agent starts this command itself.
      """,
    shouldDisplay: false)

  @Option(help: "Limit of the cache, in bytes.")
  var cache: Int

  @Option(help: "Milliseconds that one line may take before other lines have priority.")
  var slice = 100

  @Option(help: "The same limit for files that users can change; a line that needs more is returned unfinished.")
  var strangers: Int?

  @Option(name: .customLong("debug-dir"), help: "Search here for separate debug files; may be repeated.")
  var debugDirectories: [String] = []

  func run() throws {
    clinux_close_from(3)
    var status = stat()
    guard fstat(0, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else {
      throw ValidationError("standard input is not a socket; stalld run starts this command.")
    }
    // While libraries can still be opened.
    let canLookUp = Symbolizer.load() == nil
    let worker = NameWorker(
      cache: cache, debugDirectories: debugDirectories, slice: UInt64(max(1, slice)) * 1_000_000,
      sliceOfStrangers: strangers.map { UInt64(max(1, $0)) * 1_000_000 }, canLookUp: canLookUp)
    // The patient worker has the lower priority.
    guard clinux_limit_worker(Self.addressSpace(cache: cache), 2048, strangers == nil ? 15 : 5) else {
      throw ValidationError("cannot limit this process: \(String(cString: strerror(errno)))")
    }
    // Where the kernel has no filters, the limits have to do.
    _ = clinux_forbid_other_calls()
    worker.run()
  }

  /// Tables and copies, while they are made, with the files' own length: those are read in parts.
  static func addressSpace(cache: Int) -> Int { (3 << 30) + 8 * cache }
}
