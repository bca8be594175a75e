import Foundation
import TestSupport
import Testing

@testable import stalld

/// The unit that operators install, as systemd's own tools judge it.
@Suite(.enabled(if: Program.installed("systemd-analyze") != nil, "systemd-analyze is missing (Debian: systemd)"))
struct UnitFileTests {
  static let unit = Repository.file("systemd/stalld.service")

  /// It exits with 0 even for a key that it does not know, but says so.
  @Test func systemdReportsNoProblemOfTheUnit() throws {
    let (status, errors) = try verify(String(contentsOf: Self.unit, encoding: .utf8))
    #expect(errors == "")
    #expect(status == 0)
    let spoilt = try verify(String(contentsOf: Self.unit, encoding: .utf8) + "\n[Service]\nProtectHom=yes\n")
    #expect(spoilt.errors.contains("ProtectHom"), "the judge itself notices a misspelt key")
  }

  /// The unit is killed before the machine has no memory, and never for what its settings allow.
  @Test func memoryIsLimited() throws {
    let unit = try String(contentsOf: Self.unit, encoding: .utf8)
    let line = try #require(unit.split(separator: "\n").first { $0.hasPrefix("MemoryMax=") })
    let limit = try #require(ByteSize.parse(line.dropFirst("MemoryMax=".count) + "iB"))
    let settings = AgentSettings()
    #expect(limit >= 2 * (settings.limits.memory + settings.symbolication.cache) + (512 << 20))
    #expect(limit <= 2 << 30)
  }

  @Test func exposureIsLow() throws {
    let analysis = try Program.run(
      Program.installed("systemd-analyze")!, ["security", "--offline=true", "--no-pager", Self.unit.path],
      environment: ["LC_ALL": "C"])
    let line = try #require(analysis.output.split(separator: "\n").first { $0.contains("Overall exposure level") })
    let exposure = try #require(line.split(separator: " ").lazy.compactMap { Double($0) }.first)
    print("systemd-analyze security:", line)
    #expect(exposure <= 1.0)
  }

  private func verify(_ text: String) throws -> (status: Int32, errors: String) {
    let scratch = try ScratchDirectory()
    let copy = scratch.url.appending(path: "stalld.service")
    // The command is not installed on the machine that builds it.
    let executable = try Program.built("stalld", "debug").path
    try text.replacing("=/usr/bin/stalld ", with: "=\(executable) ")
      .write(to: copy, atomically: true, encoding: .utf8)
    let socket = scratch.url.appending(path: "stalld.socket")
    try FileManager.default.copyItem(at: Repository.file("systemd/stalld.socket"), to: socket)
    // What is wrong with other units of this machine is not ours to answer for.
    let result = try Program.run(
      Program.installed("systemd-analyze")!, ["verify", "--man=no", "--recursive-errors=no", copy.path, socket.path])
    return (result.status, result.errors + result.output)
  }
}
