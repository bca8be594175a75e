import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

/// What an earlier version has left behind (`Tests/Support/versions`), read by this one.
struct EarlierVersionsTests {
  static let versions = ["1.0"]

  private func file(_ name: String, _ version: String) throws -> Data {
    try Data(contentsOf: Repository.root.appending(path: "Tests/Support/versions/\(version)/\(name)"))
  }

  private func object(_ line: [UInt8]) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
  }

  private static let id = "00112233445566778899aabbccddeeff"

  @Test(arguments: versions)
  func spoolIsRead(version: String) throws {
    guard case .lines(let lines, let isDamaged) = try file("spool", version).withUnsafeBytes({ SpoolFormat.read($0) })
    else {
      Issue.record("the spool is not usable")
      return
    }
    #expect(!isDamaged && lines.count == 2)
    for (line, event) in zip(lines, ["stall.ongoing", "stall.ended"]) {
      #expect((try object(line)["event"] as? [String: Any])?["name"] as? String == event)
      #expect((try object(line)["stall"] as? [String: Any])?["id"] as? String == Self.id)
    }
  }

  @Test(arguments: versions)
  func recordOfAStallIsRead(version: String) throws {
    guard case .fatal(let line) = try file("stall-record", version).withUnsafeBytes({ StallRecord.read($0) }) else {
      Issue.record("the record is not usable")
      return
    }
    #expect((try object(line)["event"] as? [String: Any])?["name"] as? String == "stall.fatal")
  }

  @Test(arguments: versions)
  func recoveryPageIsRead(version: String) throws {
    try file("recovery-page", version).withUnsafeBytes { page in
      #expect(RecoveryFormat.fate(of: Self.id, on: page) == .lasted)
      #expect(RecoveryFormat.fate(of: String(Self.id.reversed()), on: page) == .over(312_000_000))
    }
  }

  /// Files are found by their names: another prefix, and an upgrade would leave them for ever.
  @Test func filesHaveTheNamesThatTheyHadIn1_0() {
    let service = ["web", "/var/lib/web"]
    #expect(AbandonedFiles.prefix("stallspool", service: service) == "stallspool-6065ff51b37e6ed9-")
    #expect(AbandonedFiles.prefix("stallmonitor", service: service) == "stallmonitor-6065ff51b37e6ed9-")
  }

  @Test func laterSchemasAreKnown() {
    #expect(ReportSchema.isLater("1.1") && ReportSchema.isLater("1.12"))
    for schema in ["1.0", "0.9", "2.0", "1", "1.", "1.x", "1.1.1", "", "1.-1", "99999999999999999999.1"] {
      #expect(!ReportSchema.isLater(schema), "\(schema)")
    }
  }
}
