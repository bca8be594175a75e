import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// Which of several processes has a socket's path.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct SocketLockTests {
  private let scratch: ScratchDirectory
  private var path: String { scratch.url.appending(path: "s").path }
  private var lock: String { path + ".lock" }

  init() throws { scratch = try ScratchDirectory() }

  private func failure() -> String {
    guard
      let error = #expect(
        throws: StreamListener.Failure.self, performing: { try StreamListener(path: path, mode: 0o600) })
    else { return "" }
    return error.description
  }

  @Test func ofTwoAgentsThatStartAtOnceOneServesAndTheOtherNamesIt() throws {
    let stalld = try Program.built("stalld", "debug").path
    let place = scratch.path
    let control = "\(place)/c"
    for round in 0..<20 {
      let agents = [Process(), Process()]
      let errors = agents.map { _ in Pipe() }
      for (agent, pipe) in zip(agents, errors) {
        agent.executableURL = URL(fileURLWithPath: stalld)
        agent.arguments = [
          "run", "--socket", path, "--control", control, "--details", "\(place)/details", "--output",
          "file:\(place)/stalls.jsonl",
        ]
        agent.standardError = pipe
        agent.standardOutput = pipe
      }
      for agent in agents { try agent.run() }
      defer { for agent in agents where agent.isRunning { kill(agent.processIdentifier, SIGKILL) } }
      try waitUntil { agents.contains { !$0.isRunning } }
      let loser = try #require(agents.firstIndex { !$0.isRunning })
      let winner = agents[1 - loser]
      let said = String(decoding: errors[loser].fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      #expect(agents[loser].terminationStatus == 1)
      #expect(
        said.contains(
          "cannot listen at \(path): process \(winner.processIdentifier) (stalld) listens there; end it, or"),
        "\(said)")
      let status = try ControlClient(path: control, request: #"{"status":{}}"#, within: .seconds(60)).line()
      #expect(try JSONDecoder().decode(AgentStatus.self, from: Data(status)).pid == winner.processIdentifier)
      let client = try AgentClient(path)
      client.send(AgentClient.report(id: round + 1))
      #expect(client.isAcknowledged(1), "the socket is the one of the agent that runs")
      // Each second one leaves its sockets and its locks behind.
      kill(winner.processIdentifier, round % 2 == 0 ? SIGTERM : SIGKILL)
      winner.waitUntilExit()
      #expect((access(lock, F_OK) == 0) == (round % 2 == 1))
    }
  }

  /// The other process has bound its socket, and does not listen yet: so a connection is refused, as by an abandoned socket.
  @Test func socketOfAProcessThatDoesNotListenYetIsNotReplaced() throws {
    let other = Process()
    other.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    other.arguments = [
      "-c",
      """
      import fcntl, socket, sys
      lock = open(sys.argv[1] + ".lock", "w")
      fcntl.lockf(lock, fcntl.LOCK_EX)
      bound = socket.socket(socket.AF_UNIX)
      bound.bind(sys.argv[1])
      print("bound", flush=True)
      sys.stdin.read()
      """, path,
    ]
    let (input, output) = (Pipe(), Pipe())
    other.standardInput = input
    other.standardOutput = output
    try other.run()
    defer { if other.isRunning { kill(other.processIdentifier, SIGKILL) } }
    #expect(String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).hasPrefix("bound"))
    func inode() throws -> UInt64 {
      var facts = stat()
      try #require(lstat(path, &facts) == 0)
      return UInt64(facts.st_ino)
    }
    let before = try inode()
    let said = failure()
    #expect(
      said.hasPrefix("cannot listen at \(path): process \(other.processIdentifier) (python3"), "\(said)")
    #expect(try inode() == before)

    // The kernel releases the lock of a killed process; its files do no harm.
    kill(other.processIdentifier, SIGKILL)
    other.waitUntilExit()
    let listener = try StreamListener(path: path, mode: 0o600)
    #expect(StreamListener.obstacle(at: path)?.contains("listens there") == true)
    listener.end()
    #expect(access(path, F_OK) != 0 && access(lock, F_OK) != 0, "nothing is left behind")
  }

  @Test func lockFileThatIsNoneIsNamedAndLeftAlone() throws {
    let other = scratch.url.appending(path: "other")
    try Data("mine".utf8).write(to: other)
    symlink(other.path, lock)
    #expect(failure() == "cannot listen at \(path): \(lock) is not a regular file; remove it")
    #expect(try String(contentsOf: other, encoding: .utf8) == "mine")
    unlink(lock)
    mkdir(lock, 0o755)
    #expect(failure().contains("\(lock) is not a regular file; remove it"))
    rmdir(lock)
    mkfifo(lock, 0o644)
    #expect(failure().contains("\(lock) is not a regular file; remove it"))
    unlink(lock)
    #expect(access(path, F_OK) != 0, "there is no socket")
    try Data("mine".utf8).write(to: URL(fileURLWithPath: lock))
    #expect(failure().contains("\(lock) has content, so it is another program's file"))
    #expect(try String(contentsOf: URL(fileURLWithPath: lock), encoding: .utf8) == "mine")
  }

  @Test(.enabled(if: geteuid() == 0, "another user's file needs root"))
  func lockFileOfAnotherUserIsNamed() throws {
    let stalld = try Program.built("stalld", "debug").path
    try Data().write(to: URL(fileURLWithPath: lock))
    chmod(lock, 0o600)
    chmod(scratch.path, 0o777)
    let run = try Program.run(
      "/usr/bin/setpriv",
      [
        "--reuid=65534", "--regid=65534", "--clear-groups", stalld, "run", "--socket", path, "--control",
        "\(scratch.path)/c", "--details", "\(scratch.path)/details", "--output", "stdout",
      ], limit: 60)
    #expect(run.status == 1)
    #expect(
      run.errors
        == "stalld: cannot listen at \(path): cannot open \(lock): Permission denied; it belongs to user 0: remove it if no agent of that user runs\n"
    )
  }

  @Test(.enabled(if: geteuid() == 0, "a mount needs root"))
  func directoryThatTakesNoFileIsReported() throws {
    let disk = try SmallDisk(size: "1m,nr_inodes=1")
    let socket = "\(disk.path)/s"
    let full = #expect(throws: StreamListener.Failure.self) { try StreamListener(path: socket, mode: 0o600) }
    #expect(full?.description == "cannot listen at \(socket): cannot open \(socket).lock: No space left on device")
  }
}
