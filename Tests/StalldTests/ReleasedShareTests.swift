import Foundation
import TestSupport
import Testing

@testable import stalld

/// What the agent counts of users and units is released when their clients have gone.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct ReleasedShareTests {
  /// The agent's ingest, whose lines arrive when the test says so.
  private final class Receiver: @unchecked Sendable {
    // @unchecked: all but the path is touched on the loop's thread alone.
    final class Lines {
      var underWay: [PendingLine] = []
    }

    let path: String
    private let listener: StreamListener
    private let lines = Lines()
    let ingest: Ingest

    init(on driver: AgentDriver, in directory: ScratchDirectory) throws {
      path = directory.url.appending(path: "s").path
      listener = try StreamListener(path: path, mode: 0o600)
      let lines = lines
      ingest = Ingest(
        loop: driver.loop, policy: Ingest.Policy(), metrics: driver.metrics,
        destination: .init(
          submit: { lines.underWay += $0 }, storeDetail: { _, _, _ in }, settings: { _, _ in nil }))
      try ingest.listen(at: listener.descriptor)
    }

    deinit { listener.end() }

    func finishLines() {
      defer { lines.underWay = [] }
      ingest.didFinish(lines.underWay)
    }

    /// Sums by `Type.property`: of numbers, and of the lengths of lists; and the names of structures with lists.
    struct Counts {
      var numbers: [String: Int] = [:]
      var lists: [String: Int] = [:]
      var remembering: Set<String> = []
    }

    /// Numbers and lists that count nothing of what clients have; buckets are no numbers.
    private static let apart: Set = [
      "UserShare.owner", "UserShare.units", "Ingest.nextNumber", "Ingest.nextInquiry", "Counts.limit",
    ]

    /// Raised only for the moment after the end of a process; another test sees it raised.
    static let brief: Set = ["Ingest.systemdInquiries"]

    /// What remembers clients that have gone, each with a limit of its own; and the settings.
    static let limited: Set = [
      "Ingest.policy", "Ingest.shares", "Ingest.connectionRate", "Ingest.usage", "Ingest.recent",
      "Ingest.clientLog",
    ]

    /// Everything that is counted of users, of units and of all.
    var counts: Counts {
      var counts = Counts()
      func add(_ subject: AnyObject) {
        for case (let label?, let value) in Mirror(reflecting: subject).children {
          let name = "\(type(of: subject)).\(label)"
          guard !Self.apart.contains(name) else { continue }
          switch value {
          case let number as any BinaryInteger: counts.numbers[name, default: 0] += Int(number)
          case let allowance as SharedAllowance<UInt32>:
            counts.numbers[name, default: 0] += allowance.total
            counts.lists[name, default: 0] += allowance.taken.count
          case let list as any Collection: counts.lists[name, default: 0] += list.count
          default:
            let mirror = Mirror(reflecting: value)
            guard mirror.displayStyle == .struct else { continue }
            if mirror.children.contains(where: { $0.value is any Collection }) { counts.remembering.insert(name) }
          }
        }
      }
      for user in ingest.shares.users.values {
        add(user)
        user.units.values.forEach(add)
      }
      add(ingest.recoveries)
      // Its buffer for reading is always there.
      add(ingest)
      counts.lists["Ingest.scratch"] = nil
      return counts
    }
  }

  @Test("nothing is counted of clients that were killed during a stall")
  func killedInMidStall() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let receiver = try driver.perform { try Receiver(on: $0, in: scratch) }
    // Two stay connected until they are killed, one leaves before, one stall ends before, and one
    // client says goodbye.
    let ends = ["time.sleep(600)", "time.sleep(1); s.close(); time.sleep(600)", "", "", "time.sleep(600)"]
    let hosts = try ends.enumerated().map { index, end in
      var lines = [
        #"{"hello":{"protocol":1,"service":{"name":"web"},"recovery":1}}"#,
        AgentClient.report(id: index + 1, event: "stall.started"),
      ]
      if index == 2 { lines.append(AgentClient.report(id: index + 1, sequence: 2, event: "stall.ended")) }
      if index == 3 { lines.append(#"{"goodbye":{}}"#) }
      // Then the beginning of a line.
      return try Program.start(
        "/usr/bin/python3",
        [
          "-c",
          "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode()); "
            + (end.isEmpty ? "time.sleep(600)" : end),
          receiver.path, lines.map { $0 + "\n" }.joined() + "{",
        ])
    }
    defer { for host in hosts { kill(host.processIdentifier, SIGKILL) } }
    try waitUntil("two that are connected in mid-stall, and the one that left") {
      try driver.perform { _ in
        receiver.ingest.connections.count == hosts.count - 1 && receiver.ingest.openStalls == 3
          && receiver.ingest.absent.count == 1
      }
    }
    let before = try driver.perform { _ in receiver.counts }
    #expect(before.remembering == Receiver.limited)
    for (name, number) in before.numbers where !Receiver.brief.contains(name) {
      #expect(number > 0, "these clients do not raise \(name): let them, so that its release is seen")
    }
    for host in hosts { kill(host.processIdentifier, SIGKILL) }
    try waitUntil("their ends") {
      try driver.perform { _ in
        let (ingest, hasGone) = (receiver.ingest, receiver.ingest.connections.isEmpty)
        if hasGone { receiver.finishLines() }
        return hasGone && ingest.processes.isEmpty && ingest.inquiries.isEmpty && ingest.underWay == 0
      }
    }
    let after = try driver.perform { _ in receiver.counts }
    #expect(after.numbers.keys.sorted() == before.numbers.keys.sorted(), "the shares are still known")
    for (name, number) in after.numbers { #expect(number == 0, "\(name)") }
    for (name, number) in after.lists { #expect(number == 0, "\(name)") }
  }

  @Test("processes of one user that all end during a stall leave inquiries to other users")
  func manyEndsOfOneUser() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let receiver = try driver.perform { try Receiver(on: $0, in: scratch) }
    // How they ended is not known while their parent does not wait for them.
    let parent = try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, socket, sys, time
        end = time.time() + 3
        for line in sys.argv[2:]:
          if os.fork(): continue
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
          s.sendall(line.encode() + b"\\n")
          time.sleep(max(0, end - time.time())); os._exit(1)
        time.sleep(600)
        """, receiver.path,
      ] + (1...20).map { AgentClient.report(id: $0, event: "stall.started") })
    defer { kill(parent.processIdentifier, SIGKILL) }
    try waitUntil("all in a stall") { try driver.perform { _ in receiver.ingest.openStalls == 20 } }
    let (limit, owner, other) = (Ingest.inquiryLimit, geteuid(), geteuid() + 1)
    try waitUntil("their ends, with half of the inquiries") {
      try driver.perform { _ in
        let inquiries = receiver.ingest.systemdInquiries
        return inquiries.taken == [owner: limit / 2] && inquiries.allows(1, for: other, limit: limit)
      }
    }
    try waitUntil("all are answered") { try driver.perform { _ in receiver.ingest.inquiries.isEmpty } }
    #expect(try driver.perform { _ in receiver.ingest.systemdInquiries.total } == 0)
  }
}
