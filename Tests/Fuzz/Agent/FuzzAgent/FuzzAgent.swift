import Glibc
import StallReport

@testable import AgentInput
@testable import StallMonitor

// A libFuzzer target (`make fuzz`): what the agent and its hosts read of strangers. FUZZ says which reader: lines, settings or spool.

private let reader = getenv("FUZZ").map { String(cString: $0) } ?? ""

/// Reads one input; libFuzzer calls it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let input = UnsafeBufferPointer(start: bytes, count: count)
  switch reader {
  case "lines": readLine(input)
  case "settings": readSettings(Array(input))
  case "spool": readSpool(UnsafeRawBufferPointer(input))
  default: preconditionFailure("FUZZ is \(reader); allowed: lines, settings, spool")
  }
  return 0
}

/// A host's line, as it comes and as the agent's own: what is found lies within it, and is JSON for the library's own reader, too.
private func readLine(_ line: UnsafeBufferPointer<UInt8>) {
  for isStamped in [false, true] {
    guard let parts = try? LineScanner.scan(line, isStamped: isStamped) else { continue }
    for range in [
      parts.eventName, parts.schema, parts.dropped, parts.level, parts.time, parts.message, parts.stall, parts.stallID,
      parts.sequence, parts.duration, parts.cause, parts.culprit, parts.tally, parts.service, parts.serviceName,
      parts.process, parts.processID, parts.userID, parts.executable, parts.payload,
    ] {
      precondition(range.map { $0.lowerBound >= 0 && $0.upperBound <= line.count && !$0.isEmpty } != false)
    }
    precondition((0...line.count).contains(parts.omittableBytes))
    _ = parts.missing
    precondition((try? JSONText(Array(line))) != nil, "one reader takes what the other refuses")
    if let payload = parts.payload { readMessage(UnsafeBufferPointer(rebasing: line[payload])) }
  }
  // What an agent says to its host.
  _ = AgentMessage(Array(line))
}

/// The value of `hello` or `detail`, each read as both.
private func readMessage(_ payload: UnsafeBufferPointer<UInt8>) {
  if let greeting = try? HostGreeting(payload) {
    precondition(payload.count <= HostGreeting.longest)
    precondition((greeting.service?.utf8.count ?? 0) <= HostGreeting.longestName)
    precondition((0...LineScanner.largestCount).contains(greeting.spooled))
  }
  if let header = try? DetailHeader(payload) {
    precondition(header.stallID.utf8.count == 32, "a file's name is made of it")
    precondition(header.stallID.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    let text = try? JSONText(Array(payload))
    precondition(text.flatMap { $0.string($0.root["id"]) } == header.stallID, "two readers find two ids")
  }
}

/// The settings' file: what is read of it is what is read again of what is written.
private func readSettings(_ bytes: [UInt8]) {
  var (settings, reader) = (AgentSettings(), SettingsReader(file: "fuzz"))
  reader.read(YAMLDocument(bytes), into: &settings)
  _ = SettingsErrors(problems: reader.problems).description
  for service in settings.services { _ = service.matches(unit: "web.service", service: "web") }
  guard reader.problems.isEmpty else { return }
  var (again, second) = (AgentSettings(), SettingsReader(file: "fuzz"))
  second.read(YAMLDocument(Array(settings.yaml.utf8)), into: &again)
  precondition(second.problems.isEmpty, "\(second.problems)")
  precondition(again == settings, "what is written is read as something else")
}

/// A dead process's files: the spool, the stall record, the page on which stalls that are over are noted.
private func readSpool(_ file: UnsafeRawBufferPointer) {
  if case .lines(let lines, _) = SpoolFormat.read(file) {
    for line in lines { precondition(line.count <= SpoolFormat.longestLine && LineValidator.isReport(line)) }
  }
  if let head = spool(of: file), case .lines(let lines, _) = head.withUnsafeBytes({ SpoolFormat.read($0) }) {
    for line in lines { precondition(line.count <= SpoolFormat.longestLine && LineValidator.isReport(line)) }
  }
  _ = StallRecord.read(file)
  _ = RecoveryFormat.fate(of: "00112233445566778899aabbccddeeff", on: file)
}

/// The input as the ring of a spool whose head is whole, which few inputs would ever have: three bytes say where it begins and ends.
private func spool(of input: UnsafeRawBufferPointer) -> [UInt8]? {
  guard input.count > 3 else { return nil }
  let ring = input.count - 3
  let head = (Int(input[0]) << 8 | Int(input[1])) % ring
  let used = Int(input[2]) * ring / 255
  var file = SpoolFormat.head(head: head, used: used, ringSize: ring)
  file += [UInt8](repeating: 0, count: SpoolFormat.headSize - file.count)
  return file + input[3...]
}
