public import Foundation
public import Testing

/// A program that stalls in a known way, run to its end as a process of its own and judged by what it wrote.
public struct Victim {
  /// How the victim was built.
  public enum Build: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case debug, release

    /// `debug`, or what TEST_BUILD says: on an emulated processor, a monitor that is built for debugging takes seconds for a stall's names.
    public static let usual: Build = ProcessInfo.processInfo.environment["TEST_BUILD"] == "release" ? .release : .debug

    /// The configuration's name.
    public var testDescription: String { rawValue }

    /// The program, as `swift build` leaves it.
    ///
    /// `make test` builds both.
    public func executable(_ name: String) throws -> URL { try Program.built(name, rawValue) }
  }

  /// The exit code, or the number of the signal.
  public var status: Int32
  /// The report lines of standard output.
  public var reports: [WrittenReport]
  /// Standard error.
  public var talk: String

  /// The `key=value` pairs that the victim said.
  public var facts: [String: String] {
    var facts: [String: String] = [:]
    for line in talk.split(separator: "\n") where line.hasPrefix("victim: ") {
      for pair in line.dropFirst("victim: ".count).split(separator: " ") {
        guard let equals = pair.firstIndex(of: "=") else { continue }
        facts[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
      }
    }
    return facts
  }

  /// The reports of one kind.
  public func reports(_ event: String) -> [WrittenReport] { reports.filter { $0.event == event } }

  /// Runs a victim.
  ///
  /// Every line that it wrote is validated against the schema. `wrapper` is a command that ends in running the one behind it: `taskset -c 0`.
  /// `whileRunning` is called once the victim has said `words`, or at once if there are none.
  public static func run(
    _ scenario: String, milliseconds: Int? = nil, arguments: [String] = [], build: Build = .usual,
    environment: [String: String] = [:],
    through wrapper: [String] = [], program: URL? = nil, waitingFor words: String = "",
    whileRunning: ((Process) throws -> Void)? = nil
  ) throws -> Victim {
    let process = Process()
    let command =
      wrapper + [try (program ?? build.executable("StallVictim")).path, scenario]
      + (milliseconds.map { [String($0)] } ?? []) + arguments
    process.executableURL = URL(fileURLWithPath: command[0])
    process.arguments = Array(command.dropFirst())
    var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("STALLMONITOR_") }
    // Of its own, so that no other test's victim reports this one's end.
    let state = try environment["STALLMONITOR_STATE_DIRECTORY"] == nil ? ScratchDirectory.inMemory() : nil
    if let state { variables["STALLMONITOR_STATE_DIRECTORY"] = state.url.path }
    variables.merge(environment) { $1 }
    process.environment = variables
    let (output, talk) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = talk
    try process.run()
    StandstillWatch.current?.watch(process: process.processIdentifier)
    var said = Data()
    while !words.isEmpty, !String(decoding: said, as: UTF8.self).contains(words) {
      let more = talk.fileHandleForReading.availableData
      if more.isEmpty { break }
      said += more
    }
    try whileRunning?(process)
    let lines = output.fileHandleForReading.readDataToEndOfFile()
    said += talk.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    withExtendedLifetime(state) {}
    try ReportSchema.expectValid(lines)
    return Victim(
      status: process.terminationStatus,
      reports: try lines.split(separator: UInt8(ascii: "\n")).map { try WrittenReport($0) },
      talk: String(decoding: said, as: UTF8.self))
  }
}

extension ProcessInfo {
  /// Whether the machine's processor is emulated.
  ///
  /// `scripts/test-aarch64` sets the variable.
  public static let isProcessorEmulated = processInfo.environment["TEST_MACHINE"] == "emulated"

  /// Whether the library for services in C has Swift's runtime in it: in the emulated aarch64 machine it uses Debian's.
  public static var isRuntimeInLibrary: Bool {
    #if arch(arm64)
    !isProcessorEmulated
    #else
    true
    #endif
  }

  /// Compares the kernel's version.
  public static func isKernelAtLeast(_ major: Int, _ minor: Int) -> Bool {
    let release = (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)) ?? ""
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    return !numbers.lexicographicallyPrecedes([major, minor])
  }
}

extension Process {
  /// Whether something is in the pipe that is its standard output.
  public var hasWritten: Bool {
    var count: Int32 = 0
    let descriptor = (standardOutput as? Pipe)?.fileHandleForReading.fileDescriptor ?? -1
    return ioctl(descriptor, UInt(FIONREAD), &count) == 0 && count > 0
  }
}
