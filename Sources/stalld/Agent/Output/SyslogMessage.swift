import Glibc

/// A report as a message of RFC 5424: `<28>1 TIME HOST stalld PID stall.ended - {…}`.
///
/// No byte order mark stands before the JSON: readers would have to strip it.
enum SyslogMessage {
  /// What rsyslog takes by default; the rest of a longer message would be cut off.
  static let longest = 8096
  /// `{"@timestamp":"`: each report begins with its time.
  private static let timeKey = Array(#"{"@timestamp":""#.utf8)

  static func bytes(of line: ReportLine, facility: SyslogFacility, host: String, process: Int32) -> [UInt8] {
    let report = line.bytes.last == UInt8(ascii: "\n") ? line.bytes.dropLast() : line.bytes[...]
    // error, or warning.
    let priority = facility.code * 8 + (line.isError ? 3 : 4)
    let time = time(of: line.bytes)
    let event = token(line.event, limit: 32)
    func head(_ host: String) -> String { "<\(priority)>1 \(time) \(host) stalld \(process) \(event) - " }
    let full = head(token(host, limit: 255))
    // The report has the host's name, too.
    return Array((full.utf8.count + report.count > longest ? head("-") : full).utf8) + report
  }

  /// Printable ASCII without blanks, or a dash.
  private static func token(_ text: String, limit: Int) -> String {
    let bytes = text.utf8.filter { (33...126).contains($0) }.prefix(limit)
    return bytes.isEmpty ? "-" : String(decoding: bytes, as: UTF8.self)
  }

  /// The report's own time, in microseconds (RFC 5424 has no more digits), or a dash.
  private static func time(of line: [UInt8]) -> String {
    guard line.starts(with: timeKey) else { return "-" }
    let text = line.dropFirst(timeKey.count).prefix { $0 != UInt8(ascii: "\"") }
    let pattern = Array("0000-00-00T00:00:00.000000".utf8)
    let isTime = text.prefix(pattern.count).elementsEqual(pattern) { byte, expected in
      expected == UInt8(ascii: "0") ? (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) : byte == expected
    }
    guard isTime, text.last == UInt8(ascii: "Z"), text.count <= 30 else { return "-" }
    return String(decoding: text.prefix(pattern.count), as: UTF8.self) + "Z"
  }
}
