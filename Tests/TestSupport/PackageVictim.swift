public import Foundation

extension Victim {
  /// The victim of the package under `Integrations` whose tests these are: the program whose name ends in `Victim`.
  ///
  /// Found from this file upwards, since those packages have this directory as a link.
  private static let ofThisPackage: URL? = {
    let files = FileManager.default
    var directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    while directory.path != "/", !files.fileExists(atPath: directory.appending(path: "Package.swift").path) {
      directory.deleteLastPathComponent()
    }
    let folders = try? files.contentsOfDirectory(atPath: directory.appending(path: "Tests").path)
    return folders?.first { $0.hasSuffix("Victim") }.map { directory.appending(path: ".build/debug/\($0)") }
  }()

  /// Runs the victim of a package under `Integrations`; each stall is reported, also one that is like another.
  public static func run(
    here scenario: String, environment: [String: String] = [:], waitingFor words: String = "",
    whileRunning: ((Process) throws -> Void)? = nil
  ) throws -> Victim {
    try run(
      scenario, environment: ["STALLMONITOR_REPEAT_WINDOW": "0s"].merging(environment) { $1 }, program: ofThisPackage,
      waitingFor: words, whileRunning: whileRunning)
  }
}

extension WrittenReport {
  /// The file of the responsible function.
  public var file: String { culpritFrame?["file"] as? String ?? "" }
}
