import Foundation

@testable import stalld

/// A report line as a host sends it, with what a test wants to be different.
struct SampleReport {
  var event = "stall.ended"
  var id = String(repeating: "a", count: 32)
  var service = "web"
  var cause = "lock"
  var milliseconds = 619.252
  var culprit = "web.Pool.take() -> web.Connection"
  var sequence = 1
  var suppressed: Int?

  var isError: Bool { event == "stall.ongoing" || event == "stall.fatal" }

  /// Without a newline.
  var text: String {
    let level = isError ? "error" : "warn"
    let tally =
      suppressed.map {
        #","suppressed":{"count":\#($0),"total_ms":\#(milliseconds),"longest_ms":1.000,"window_ms":30000.000}"#
      } ?? ""
    return
      #"{"@timestamp":"2026-11-21T06:04:01.913864703Z","log.level":"\#(level)","message":"main loop blocked","#
      + #""event":{"name":"\#(event)","schema":"1.0"},"stall":{"id":"\#(id)","sequence":\#(sequence),"threshold_ms":250.000,"#
      + #""duration_ms":\#(milliseconds),"cause":"\#(cause)","evidence":{},"culprit":\#(Self.quoted(culprit)),"samples":2\#(tally)},"#
      + #""loop":{"name":"main","kind":"loop","phase":"after-waiting"},"thread":{"id":26057,"name":"web"},"#
      + #""process":{"pid":26057,"executable":{"path":"/usr/bin/web"}},"#
      + #""service":{"name":\#(Self.quoted(service))},"host":{"name":"vm"},"stack":[{"symbol":"___pthread_mutex_lock","file":"./nptl/pthread_mutex_lock.c","line":93},"#
      + #"{"symbol":\#(Self.quoted(culprit)),"file":"/src/Sources/web/Pool.swift","line":74},{"module":"/usr/bin/web","build_id":"93ac","offset":"0x8c481"}]}"#
  }

  var line: ReportLine {
    ReportLine(
      bytes: Array((text + "\n").utf8), event: event, isError: isError, service: service, cause: cause,
      durationMilliseconds: milliseconds, stallID: id, processID: 26057)
  }

  private static func quoted(_ text: String) -> String {
    String(decoding: try! JSONEncoder().encode(text), as: UTF8.self)
  }
}
