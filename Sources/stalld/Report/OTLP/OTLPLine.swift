import StallReport

/// A report as one line of OTLP in JSON: a `LogsData` message of one record (also an `ExportLogsServiceRequest`).
///
/// Nothing of a report is lost. `Documentation/FieldMapping.md` says where each field goes; one that is not known here becomes
/// an attribute by its dotted path, so that reports of later minor versions are converted, too.
enum OTLPLine {
  /// Why a line cannot be converted.
  struct Fault: Error, CustomStringConvertible {
    var description: String
  }

  /// Fields that describe the process and not the moment: attributes of the resource.
  private static let resourceRoots: Set<String> = ["service", "host", "process", "systemd"]
  /// What a process ended with belongs to the moment.
  private static let recordPaths: Set<String> = ["process.exit_code", "process.exit_signal", "process.exit_result"]
  /// Fields that have a place of their own in a record.
  private static let ownPlaces: Set<String> = ["@timestamp", "message", "log.level", "event.name"]
  /// Fields that OpenTelemetry's conventions know by another name.
  private static let names = ["process.exit_code": "process.exit.code"]
  /// Texts that are integers in OpenTelemetry's conventions.
  private static let integers: Set<String> = ["process.user.id"]
  private static let severities = ["info": 9, "warn": 13, "error": 17]

  /// Converts a report, without its newline, into a line with one.
  static func convert(_ line: [UInt8]) throws(Fault) -> [UInt8] {
    let text: JSONText
    do {
      text = try JSONText(line)
    } catch {
      throw Fault(description: "not JSON: \(error.reason) at byte \(error.position + 1)")
    }
    guard let event = text.string(text.root["event"]?["name"]), event.hasPrefix("stall."),
      let schema = text.string(text.root["event"]?["schema"])
    else { throw Fault(description: "not a stall report") }
    guard schema.hasPrefix("1.") else { throw Fault(description: "event.schema \"\(schema)\" is not 1.x") }
    guard let time = text.string(text.root["@timestamp"]),
      let nanoseconds = Timestamp(rfc3339: time, form: .report)?.nanosecondsSince1970
    else {
      throw Fault(description: "@timestamp is not a time such as 2026-01-31T12:00:00.000000000Z")
    }

    var resource = OTLPAttributes(text)
    var record = OTLPAttributes(text)
    collect(text.root, path: "", resource: &resource, record: &record)
    addCode(text, to: &record)

    let level = text.string(text.root["log.level"]) ?? ""
    var entry = JSONWriter()
    entry.member("timeUnixNano", String(nanoseconds))
    entry.member("severityNumber", severities[level] ?? 0)
    entry.member("severityText", level)
    entry.member("eventName", event)
    if let message = text.string(text.root["message"]) {
      entry.object("body") { $0.member("stringValue", message) }
    }
    entry.member("attributes", array: record.messages)
    return envelope(of: entry, resource: resource)
  }

  /// The message around a record: its resource and its scope.
  private static func envelope(of record: JSONWriter, resource: OTLPAttributes) -> [UInt8] {
    var scope = JSONWriter()
    scope.object("scope") { $0.member("name", "stalld") }
    scope.array("logRecords", [record])
    var logs = JSONWriter()
    logs.object("resource") { $0.member("attributes", array: resource.messages) }
    logs.array("scopeLogs", [scope])
    var line = JSONWriter()
    line.array("resourceLogs", [logs])
    return line.terminated()
  }

  private static func collect(
    _ value: JSONText.Value, path: String, resource: inout OTLPAttributes, record: inout OTLPAttributes
  ) {
    guard case .object(let members, _) = value else {
      let isResource = resourceRoots.contains(String(path.prefix { $0 != "." })) && !recordPaths.contains(path)
      let name = names[path] ?? path
      if isResource {
        resource.add(name, value, asInteger: integers.contains(path))
      } else {
        record.add(name, value)
      }
      return
    }
    for member in members {
      let inner = path.isEmpty ? member.key : "\(path).\(member.key)"
      if !ownPlaces.contains(inner) { collect(member.value, path: inner, resource: &resource, record: &record) }
    }
  }

  /// What OpenTelemetry's conventions have for code: the responsible function, and the stack as text.
  private static func addCode(_ text: JSONText, to record: inout OTLPAttributes) {
    let stack = text.root["stack"]?.elements ?? []
    if let culprit = text.string(text.root["stall"]?["culprit"]) {
      record.add("code.function.name", culprit)
      let frame = stack.first { text.string($0["symbol"]) == culprit }
      if let file = frame?["file"] { record.add("code.file.path", file) }
      if let line = frame?["line"] { record.add("code.line.number", line) }
    }
    guard !stack.isEmpty else { return }
    let lines = stack.map { frame in
      let name = text.string(frame["symbol"]) ?? "?"
      if let file = text.string(frame["file"]) {
        return "at \(name) (\(file)\(text.integer(frame["line"]).map { ":\($0)" } ?? ""))"
      }
      let module = text.string(frame["module"]) ?? "?"
      return "at \(name) (\(module)\(text.string(frame["offset"]).map { "+\($0)" } ?? ""))"
    }
    record.add("code.stacktrace", lines.joined(separator: "\n"))
  }
}
