import Glibc
import StallReport

/// A report as a syslog message.
///
/// There is no byte order mark before the JSON: readers would have to strip it.
enum SyslogMessage {
  /// What rsyslog takes by default; the rest of a longer message would be cut off.
  static let longest = 8096
  /// `{"@timestamp":"`: each report begins with its time.
  private static let timeKey = Array(#"{"@timestamp":""#.utf8)

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// As syslog(3) writes it: `<28>Nov 21 07:04:01 stalld[812]: {…}`, the report's time in the machine's time zone.
  static func local(of line: ReportLine, facility: SyslogFacility, process: Int32) -> [UInt8] {
    let text = time(of: line.bytes)
    var seconds = Timestamp(rfc3339: text, form: .report).map(\.seconds) ?? Glibc.time(nil)
    var date = tm()
    localtime_r(&seconds, &date)
    func padded(_ number: Int32, with blank: String = "0") -> String { (number < 10 ? blank : "") + String(number) }
    let moment =
      "\(months[Int(date.tm_mon)]) \(padded(date.tm_mday, with: " ")) "
      + [date.tm_hour, date.tm_min, date.tm_sec].map { padded($0) }.joined(separator: ":")
    return Array("<\(priority(of: line, facility))>\(moment) stalld[\(process)]: ".utf8) + report(of: line)
  }

  /// As RFC 5424 has it: `<28>1 TIME HOST stalld PID stall.ended - {…}`.
  static func bytes(of line: ReportLine, facility: SyslogFacility, host: String, process: Int32) -> [UInt8] {
    let report = report(of: line)
    let priority = priority(of: line, facility)
    let time = time(of: line.bytes)
    let event = token(line.event, limit: 32)
    func head(_ host: String) -> String { "<\(priority)>1 \(time) \(host) stalld \(process) \(event) - " }
    let full = head(token(host, limit: 255))
    // The report also has the machine's name.
    return Array((full.utf8.count + report.count > longest ? head("-") : full).utf8) + report
  }

  private static func report(of line: ReportLine) -> ArraySlice<UInt8> {
    line.bytes.last == UInt8(ascii: "\n") ? line.bytes.dropLast() : line.bytes[...]
  }

  /// Of an error, or a warning.
  private static func priority(of line: ReportLine, _ facility: SyslogFacility) -> Int {
    facility.code * 8 + (line.isError ? 3 : 4)
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
