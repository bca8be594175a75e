public import Foundation

/// The reason why a benchmark cannot continue.
public struct BenchmarkError: Error, CustomStringConvertible {
  /// The reason, in words.
  public var description: String

  /// Makes an error.
  public init(_ description: String) { self.description = description }
}

/// Runs a benchmark; an error ends the program with one line on standard error.
public func runBenchmark(_ body: () throws -> Void) {
  do { try body() } catch { endBenchmark("\(error)") }
}

/// Ends the program, if one of the programs that it measures beside is missing, with one line that names the Debian packages to install.
///
/// - Parameter programs: Their paths, and the package that each is in.
public func requirePrograms(_ programs: [String: String]) {
  let missing = programs.filter { access($0.key, X_OK) != 0 }.sorted { $0.key < $1.key }
  guard !missing.isEmpty else { return }
  endBenchmark(
    "\(missing.map(\.key).joined(separator: " and ")) not installed: apt-get install \(missing.map(\.value).joined(separator: " "))"
  )
}

/// Ends the program with one line on standard error.
public func endBenchmark(_ reason: String) -> Never {
  FileHandle.standardError.write(Data("\(ProcessInfo.processInfo.processName): \(reason)\n".utf8))
  exit(1)
}

extension [Double] {
  /// The value below which that share of the sorted values lies.
  public func percentile(_ share: Double) -> Double {
    let sorted = sorted()
    return sorted.isEmpty ? .nan : sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * share))]
  }

  /// The middle of the sorted values: the higher of two.
  public var median: Double { percentile(0.5) }

  /// The middle of the sorted values: the mean of two; nil if there are none.
  public var interpolatedMedian: Double? {
    let sorted = sorted()
    return sorted.isEmpty ? nil : (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
  }
}

extension Double {
  /// Three digits, or all before the point.
  public var short: String { magnitude >= 1000 ? String(format: "%.0f", self) : String(format: "%.3g", self) }
}

/// A clock in nanoseconds; `CLOCK_MONOTONIC` if no other is given.
public func nanoseconds(_ clock: clockid_t = CLOCK_MONOTONIC) -> Double {
  var time = timespec()
  clock_gettime(clock, &time)
  return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// The voluntary context switches of each thread of this process, by its id, with the thread's
/// name.
public func voluntarySwitches() -> [String: (name: String, count: Int)] {
  var switches: [String: (name: String, count: Int)] = [:]
  for thread in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? [] {
    let status = (try? String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8)) ?? ""
    func value(_ key: String) -> String? {
      status.split(separator: "\n").first { $0.hasPrefix(key) }?.split(separator: "\t").last.map(String.init)
    }
    switches[thread] = (value("Name:") ?? "", value("voluntary_ctxt_switches:").flatMap { Int($0) } ?? 0)
  }
  return switches
}

/// How often the monitor's watchdog thread has woken up.
public func watchdogWakeUps() -> Int {
  voluntarySwitches().values.first { $0.name == "stall-watchdog" }?.count ?? 0
}

/// Writes a line to standard output at once.
public func writeLine(_ line: some CustomStringConvertible) {
  FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// The processors, the kernel and the load, in one line.
public var machineDescription: String {
  var names = utsname()
  uname(&names)
  let kernel = withUnsafeBytes(of: &names.release) {
    String(decoding: $0.prefix { $0 != 0 && $0 != UInt8(ascii: "-") }, as: UTF8.self)
  }
  let processors = ProcessInfo.processInfo.activeProcessorCount
  var load = 0.0
  getloadavg(&load, 1)
  return
    "\(processors) processor\(processors == 1 ? "" : "s"), Linux \(kernel), load \(load.short) at the end of the run"
}

/// Runs this program once more with other arguments, to its end; its standard output.
public func runMyself(_ arguments: [String]) throws -> String {
  let process = Process()
  process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
  process.arguments = arguments
  let output = Pipe()
  process.standardOutput = output
  try process.run()
  let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
  process.waitUntilExit()
  guard process.terminationStatus == 0 else {
    throw BenchmarkError("\(arguments.joined(separator: " ")) ended with \(process.terminationStatus)")
  }
  return text
}
