import Foundation
import TestSupport
import Testing

extension SharedAgentTests {
  /// One user's files give no names to another user's reports, and cost nobody else a name or time.
  @Suite struct Names {
    private let shared = SharedMachine.current!
    /// The build IDs of a test: programs of their own, for names are kept by build ID.
    private func buildID(_ number: Int) -> String {
      "ab" + String(repeating: "0", count: 30)
        + String(format: "%08x", UInt32(truncatingIfNeeded: shared.nextFirst() * 64 + number))
    }

    /// A program that anybody may read, with debug information; a user's own, or root's.
    private func program(_ path: String, _ id: String, of user: SharedMachine.User = .root) throws {
      try shared.make("build \(path) \(id) honest_work", as: user)
    }

    /// The frame that a host reports of a program, maybe by another path.
    private func frame(_ path: String, as other: String? = nil) throws -> String {
      let frame = try shared.make("frame \(path)")
      return other.map { frame.replacing("\"\(path)\"", with: "\"\($0)\"") } ?? frame
    }

    /// alice and mallory report frames of programs for a while, one after the other: what alice's are called.
    private func namesOfAlice(
      _ honest: String, while mallory: String, before: Bool = true, then change: String = "true"
    ) throws
      -> [String: Int]
    {
      let hostile = try shared.startHost(.mallory, every: 20, "--frames '\(mallory)'").client
      if before { try hostile.advance(by: 10) }
      let (host, first) = try shared.startHost(every: 20, "--wander --frames '\(honest)'")
      try host.advance(by: 20)
      try shared.shell(change)
      // It looks once more whether the file has changed.
      usleep(500_000)
      try host.advance(by: 50)
      try hostile.advance(by: 10)
      try hostile.stop()
      try host.stop()
      return try shared.names(of: first)
    }

    private func expectHonest(_ names: [String: Int], _ what: String) {
      print(what, names)
      let all = names.values.reduce(0, +)
      #expect(all > 0, "\(what)")
      #expect(names["forged_", default: 0] == 0, "\(what): a name of mallory's is in a report of alice's: \(names)")
      #expect(names["honest_work", default: 0] * 10 >= all * 9, "\(what): alice's reports lack their names: \(names)")
    }

    @Test("a link to root's module, with a debug file beside the link")
    func debugFileBesideALink() throws {
      try shared.startAgent()
      let id = buildID(1)
      try program("/opt/app/stripped", id)
      let frame = try frame("/opt/app/stripped")
      try shared.make("strip /opt/app/stripped")
      try shared.shell(
        "runuser -u mallory -- sh -c 'mkdir -p /srv/mallory/beside/.debug; ln -sf /opt/app/stripped /srv/mallory/beside/link'"
      )
      for place in ["stripped.debug", ".debug/stripped.debug"] {
        try shared.make("debug /srv/mallory/beside/\(place) \(id) forged_name", as: .mallory)
      }
      let names = try namesOfAlice(frame, while: frame.replacing("/opt/app/stripped", with: "/srv/mallory/beside/link"))
      print("beside a link:", names)
      #expect(names["forged_", default: 0] == 0, "a name of mallory's is in a report of alice's: \(names)")
    }

    @Test(
      "a link to root's module that leads to another file later", .onlyInLongForm("test-shared-agent"),
      arguments: ["file", "directory"])
    func linkThatIsMoved(kind: String) throws {
      try shared.startAgent()
      let id = buildID(2)
      let honest = "/opt/app/\(kind)/service"
      try shared.shell("mkdir -p /opt/app/\(kind)")
      try program(honest, id)
      try shared.make("build /srv/mallory/forged-\(kind) \(id) forged_name", as: .mallory)
      let place = "/srv/mallory/moved-\(kind)"
      let link = kind == "file" ? "\(place)/service" : place
      let target = kind == "file" ? honest : "/opt/app/\(kind)"
      try shared.shell(
        kind == "file"
          ? "runuser -u mallory -- sh -c 'mkdir \(place); ln -s \(target) \(link)'"
          : "runuser -u mallory -- sh -c 'ln -s \(target) \(link); mkdir /srv/mallory/other; cp /srv/mallory/forged-\(kind) /srv/mallory/other/service'"
      )
      let change =
        kind == "file"
        ? "runuser -u mallory -- ln -sfT /srv/mallory/forged-\(kind) \(link)"
        : "runuser -u mallory -- ln -sfT /srv/mallory/other \(link)"
      let frame = try frame(honest)
      expectHonest(
        try namesOfAlice(frame, while: frame.replacing(honest, with: "\(place)/service"), then: change),
        "a moved link (\(kind))")
    }

    @Test("a file that claims the build ID of another user's program", .onlyInLongForm("test-shared-agent"))
    func claimedBuildID() throws {
      try shared.startAgent()
      let (id, rootID) = (buildID(3), buildID(4))
      try program("/srv/alice/service", id, of: .alice)
      try program("/opt/app/claimed", rootID)
      for (name, build) in [("alices", id), ("roots", rootID)] {
        try shared.make("build /srv/mallory/\(name) \(build) forged_name", as: .mallory)
      }
      expectHonest(
        try namesOfAlice(frame("/srv/alice/service"), while: frame("/srv/mallory/alices", as: "/srv/mallory/alices")),
        "alice's build ID claimed")
      expectHonest(
        try namesOfAlice(frame("/opt/app/claimed"), while: frame("/srv/mallory/roots")), "root's build ID claimed")
      // mallory can give names to reports of its own alone, which say whose they are.
      let (host, first) = try shared.startHost(
        every: 20, "--frames '\(frame("/opt/app/claimed", as: "/srv/mallory/roots"))'")
      try host.advance(by: 30)
      try host.stop()
      #expect(try shared.names(of: first)["forged_", default: 0] == 0, "alice reports mallory's path")
    }

    /// Files that take long: to open, to unpack, to read, to sort.
    @Test(
      "module files that block their reader", .onlyInLongForm("test-shared-agent"),
      arguments: ["opening", "bomb", "symbols"])
    func filesThatDelayTheirReader(kind: String) throws {
      try shared.startAgent()
      let honest = "/opt/app/busy-\(kind)"
      try program(honest, buildID(5))
      let frame = try frame(honest)
      var frames: [String] = []
      func add(_ path: String, _ build: String) {
        frames.append(#"{"module":"\#(path)","build_id":"\#(build)","offset":"0x1140"}"#)
      }
      var helper: SharedMachine.Client?
      for number in 0..<6 {
        let path = "/srv/mallory/\(kind)-\(number)"
        if kind == "opening" {
          try shared.shell("runuser -u mallory -- mkfifo -m 666 \(path)-fifo")
          add("\(path)-fifo", buildID(6))
          let id = buildID(6)
          try shared.make("build \(path)-lease \(id) forged_lease", as: .mallory)
          add("\(path)-lease", id)
        }
        if kind == "bomb" {
          let id = buildID(6)
          try shared.make("bomb \(path)-bomb \(id) 260000000", as: .mallory)
          add("\(path)-bomb", id)
        }
        if number < 2, kind == "symbols" {
          let id = buildID(6)
          try shared.make("symbols \(path)-symbols \(id) 8000000", as: .mallory)
          add("\(path)-symbols", id)
        }
      }
      if kind == "opening" {
        let leases = try shared.start(.mallory, "lease", "--limit 60 /srv/mallory/\(kind)-*-lease")
        try waitUntil { leases.count >= 6 }
        helper = leases
      }
      let observer = try shared.start(.root, "observe")
      let (host, first) = try shared.startHost(every: 50, "--frames '\(frame)'")
      try host.advance(by: 1)
      let hostile = try shared.startHost(.mallory, every: 20, "--frames '[\(frames.joined(separator: ","))]'").client
      try waitUntil { host.count >= 60 }
      let words = try host.stop()
      try hostile.stop()
      try helper?.stop()
      let seen = try SharedMachine.Observation(observer.stop())
      let median = try #require(words["median"] as? Double)
      print(
        "\(kind): alice was acknowledged after \(median) ms (median), \(words["p99"] ?? 0) ms (p99); the unit's memory \(seen.memory >> 20) MiB"
      )
      expectHonest(try shared.names(of: first), kind)
      #expect(median < 800, "alice was held up")
      #expect(try shared.machine.property("NRestarts", of: "stalld") == "0")
      try shared.expectMemoryLimit(seen)
      try shared.shell("rm -f /srv/mallory/\(kind)-*")
    }
  }
}
