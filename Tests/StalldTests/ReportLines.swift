import Foundation
import TestSupport
import Testing

/// Report lines of a fleet as `Config/schema` has them, the same at each call.
struct ReportLines {
  struct Kind {
    var service = "web"
    var cause = "lock"
    /// Innermost first.
    var functions = ["___pthread_mutex_lock", "Store.read() -> ()", "main"]
  }

  static let kinds = [
    Kind(),
    Kind(service: "web", cause: "io", functions: ["fsync", "Store.write() throws -> ()", "main"]),
    Kind(service: "search", cause: "running", functions: ["Index.rebuild() -> ()", "main"]),
  ]

  private(set) var text = ""
  private(set) var count = 0
  private(set) var milliseconds = 0.0

  init() {}

  /// So many stalls of ``kinds``, on `hosts` hosts, a second after each other.
  init(_ count: Int, hosts: Int) {
    for number in 0..<count {
      add(Self.kinds[number % 3], host: "node-\(number % hosts)", milliseconds: Double(250 + number * 37 % 1900))
    }
  }

  @discardableResult
  mutating func add(_ kind: Kind, host: String = "node-0", milliseconds: Double = 400, event: String = "stall.ended")
    -> String
  {
    let id = String(repeating: "0", count: 24) + String(UInt64(0x1000_0000 + count), radix: 16)
    let module = "/usr/bin/\(kind.service)"
    let stack = kind.functions.enumerated().map { depth, function -> [String: Any] in
      let isLibrary = ["fsync", "___pthread_mutex_lock"].contains(function)
      return [
        "symbol": function, "file": "/src/\(function.split(separator: ".")[0]).swift", "line": 10 + depth,
        "module": isLibrary ? "/lib/x86_64-linux-gnu/libc.so.6" : module,
        "offset": "0x\(String(4096 + depth * 16, radix: 16))",
        "build_id": isLibrary ? "aa00112233445566778899aabbccddeeff001122" : "bb00112233445566778899aabbccddeeff001122",
      ]
    }
    var line: [String: Any] = [
      "@timestamp": Self.time(count), "log.level": "warn", "message": "main loop blocked",
      "event": ["name": event, "schema": "1.0"],
      "stall": [
        "id": id, "sequence": count + 1, "threshold_ms": 250, "duration_ms": milliseconds, "cause": kind.cause,
        "evidence": [String: Any](), "samples": 1,
      ],
      "loop": ["name": "main", "kind": "loop", "phase": "after-waiting"],
      "process": ["pid": 4711, "executable": ["path": module]], "service": ["name": kind.service, "version": "1.2"],
      "host": ["name": host], "stack": stack,
    ]
    if let culprit = kind.functions.first(where: { $0.contains(".") }) ?? kind.functions.first,
      var stall = line["stall"] as? [String: Any]
    {
      stall["culprit"] = culprit
      line["stall"] = stall
    }
    let data = try! JSONSerialization.data(withJSONObject: line, options: [.sortedKeys, .withoutEscapingSlashes])
    text += String(decoding: data, as: UTF8.self) + "\n"
    count += 1
    self.milliseconds += milliseconds
    return id
  }

  private static func time(_ second: Int) -> String {
    let formatter = ISO8601DateFormatter()
    return String(formatter.string(from: Date(timeIntervalSince1970: 1_790_000_000 + Double(second))).dropLast())
      + ".000000000Z"
  }

  /// The lines in a file of a scratch directory.
  func file(in scratch: ScratchDirectory) throws -> String {
    let file = scratch.url.appending(path: "lines-\(UUID().uuidString.prefix(8)).jsonl")
    try Data(text.utf8).write(to: file)
    return file.path
  }
}
