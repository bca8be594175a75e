import CLinux
import Glibc
import LoopEngine
import StallReport
import Testing

@testable import stalld

/// Limits for clients, in virtual time: messages about them, refused connections, and what they say of themselves.
struct ClientLimitTests {
  private final class Written {
    var lines: [String] = []
  }

  private func log(_ written: Written, at time: Loop.Instant) -> ClientLog {
    ClientLog(at: time) { _, _, text in written.lines.append(text) }
  }

  // MARK: Messages

  @Test("messages about one user's clients do not suppress those about another's")
  func messagesOfTwoUsers() {
    let (written, time) = (Written(), Loop.Instant.now)
    var log = log(written, at: time)
    for subject in 0..<1000 { log.say(of: 1, about: "one-\(subject)", at: time, "mallory") }
    #expect(written.lines.filter { $0 == "mallory" }.count <= ClientLog.allowance / 2)
    #expect(written.lines.last == "too many messages about clients of user 1: the next ones are omitted for a minute")
    for subject in 0..<10 { log.say(of: 2, about: "two-\(subject)", at: time, "alice \(subject)") }
    #expect(written.lines.filter { $0.hasPrefix("alice") }.count == 10)
    log.say(.error, of: nil, about: "accept", at: time, "the agent's own")
    #expect(written.lines.last == "the agent's own")
  }

  @Test("messages about very many users stay below the limit, plus a few lines that report the limit")
  func messagesOfManyUsers() {
    let (written, time) = (Written(), Loop.Instant.now)
    var log = log(written, at: time)
    for user in 0..<10_000 as Range<UInt32> {
      for subject in 0..<3 { log.say(of: user, about: "\(user)-\(subject)", at: time, "mallory") }
    }
    #expect(written.lines.filter { $0 == "mallory" }.count <= ClientLog.allowance)
    #expect(written.lines.count <= 2 * ClientLog.allowance)
  }

  @Test("a minute later there are new messages, with the number of omitted ones")
  func messagesLater() {
    let (written, time) = (Written(), Loop.Instant.now)
    var log = log(written, at: time)
    for subject in 0..<100 { log.say(of: 1, about: "\(subject)", at: time, "text") }
    log.say(of: 1, about: "0", at: time, "again")
    #expect(!written.lines.contains { $0.hasPrefix("again") })
    log.say(of: 1, about: "0", at: time.advanced(by: ClientLog.interval), "again")
    #expect(
      written.lines.suffix(2) == [
        "50 messages about clients were omitted: there were too many",
        "again (and 1 more times since the last message)",
      ])
  }

  // MARK: Connections

  @Test("at most the limit of connections is refused per interval")
  func refusalPace() {
    let time = Loop.Instant.now
    for step in [1, 8, RefusalPace.limit] {
      var pace = RefusalPace()
      var (now, refused) = (time, 0)
      // A tenth of a second of refusals that take no time at all.
      while time.duration(to: now) < .milliseconds(100), refused < 1_000_000 {
        refused += step
        if let pause = pace.pause(afterRefusing: step, at: now) {
          #expect(pause > .zero && pause <= RefusalPace.interval)
          now = now.advanced(by: pause)
        }
      }
      #expect(refused <= 100 * (RefusalPace.limit + step))
      #expect(refused >= 100 * RefusalPace.limit, "more could have been accepted")
    }
  }

  @Test("a few refused connections do not delay the next one")
  func refusalsNowAndThen() {
    let time = Loop.Instant.now
    var pace = RefusalPace()
    for number in 0..<1000 {
      #expect(pace.pause(afterRefusing: 8, at: time.advanced(by: .milliseconds(number))) == nil)
    }
  }

  @Test("the agent keeps a reserve of descriptors; the unit has enough for the default limits")
  func descriptors() throws {
    for (limit, reserve) in [(64, 16), (128, 32), (1024, 256), (UnitNeeds.descriptorLimit, 256)] {
      let descriptors = DescriptorLimit(limit: limit)
      #expect(descriptors.reserve == reserve)
      #expect(descriptors.isReserved(Int32(limit - reserve)) && !descriptors.isReserved(Int32(limit - reserve - 1)))
    }
    let unit = DescriptorLimit(limit: UnitNeeds.descriptorLimit)
    #expect(try unit.restriction(of: AgentSettings().limits.connections, open: 0) == nil)
    // A high number moves to a lower one, and stays the same file.
    let usual = DescriptorLimit.current
    let low = eventfd(7, 0)
    defer { close(low) }
    var high = fcntl(low, F_DUPFD_CLOEXEC, Int32(usual.limit - usual.reserve))
    #expect(usual.moveOutOfReserve(&high) && !usual.isReserved(high))
    var value: eventfd_t = 0
    #expect(eventfd_read(high, &value) == 0 && value == 7)
    close(high)
    #expect(usual.allowsConnection && !DescriptorLimit(limit: 3).allowsConnection)
    var stuck = low
    #expect(!DescriptorLimit(limit: 3).moveOutOfReserve(&stuck) && stuck == low)
  }

  // MARK: hello and detail

  private func greeting(_ text: String) throws(JSONScanner.Fault) -> HostGreeting {
    let bytes = Array(text.utf8)
    return try bytes.withUnsafeBufferPointer { (buffer) throws(JSONScanner.Fault) in try HostGreeting(buffer) }
  }

  private func detail(_ text: String) throws(JSONScanner.Fault) -> String {
    let bytes = Array(text.utf8)
    return try bytes.withUnsafeBufferPointer { (buffer) throws(JSONScanner.Fault) in try DetailHeader(buffer).stallID }
  }

  @Test("a greeting is read within limits, and members of later versions are ignored")
  func greetings() throws {
    let full = try greeting(
      #"{"protocol":1,"service":{"name":"web","more":[1]},"process":{"pid":7},"spooled":3,"recovery":2,"later":{}}"#)
    #expect(full.service == "web" && full.processID == 7 && full.spooled == 3 && full.recoveryVersion == 2)
    let long = try greeting(#"{"service":{"name":"\#(String(repeating: "ä", count: 4000))"}}"#)
    #expect(long.service.map { $0.utf8.count <= HostGreeting.longestName } == true)
    let odd = try greeting(#"{"service":7,"process":[],"spooled":"many","recovery":{}}"#)
    #expect(odd.service == nil && odd.processID == nil && odd.spooled == 0 && odd.recoveryVersion == 0)
    for wrong in [
      #"{"spooled":-1}"#, #"{"spooled":1000000000001}"#, #"{"x":"\#(String(repeating: "x", count: 16 << 10))"}"#, "{",
    ] {
      #expect(throws: JSONScanner.Fault.self, "\(wrong.prefix(40))") { try greeting(wrong) }
    }
  }

  @Test("a detail's ID has exactly 32 hexadecimal digits")
  func details() throws {
    let id = "00112233445566778899aabbccddeeff"
    #expect(try detail(#"{"more":{"id":"x"},"id":"\#(id)","samples":[[],{}]}"#) == id)
    for wrong in [
      "[]", "{}", "7", #"{"id":7}"#, #"{"id":[11111111111111111111111111111111]}"#, #"{"id":"../../../etc/passwd"}"#,
      #"{"id":"\#(id.uppercased())"}"#, #"{"id":"\#(id)0"}"#, #"{"more":{"id":"\#(id)"}}"#, #"{"id":"\#(id)""#,
      #"{"id":"../../../../../etc/passwd/.././."}"#,
    ] {
      #expect(throws: JSONScanner.Fault.self, "\(wrong)") { try detail(wrong) }
    }
  }
}
