import Foundation
import StallReport
import TestSupport

@testable import StallCapture
@testable import StallMonitor

/// The machine that runs the tests.
enum TestMachine {
  /// Whether its processor is emulated: programs run several times slower than on a real one.
  static let isEmulated = ProcessInfo.isProcessorEmulated

  /// Whether temporary files lie in memory, and not on a disk.
  static let hasTemporaryFilesInMemory: Bool = {
    let folder = FileManager.default.temporaryDirectory.path
    return (try? Program.run("/usr/bin/stat", ["--file-system", "--format=%T", folder]).output) == "tmpfs\n"
  }()

  /// Whether Swift's own libraries have symbol tables, with the names of what they do not export: those of Debian's package have none.
  static let namesSwiftsLibraries: Bool = {
    // `String(contentsOfFile:)` has the first page of it alone.
    let file = FileHandle(forReadingAtPath: "/proc/self/maps")
    let maps = (try? file?.readToEnd()).map { String(decoding: $0, as: UTF8.self) } ?? ""
    guard let map = maps.split(separator: "\n").first(where: { $0.hasSuffix("/libdispatch.so") }) else { return false }
    let names = try? Program.run("/usr/bin/nm", [String(map.drop { $0 != "/" })]).output
    return names?.contains(" _dispatch_worker_thread\n") == true
  }()

  /// The length of a stall that takes `milliseconds` on a real processor: on an emulated one, time for names and several samples.
  static func stall(_ milliseconds: Int) -> Int { isEmulated ? max(4 * milliseconds, 4000) : milliseconds }

  /// The reports of a stall of that length whose names are judged: on an emulated processor, the last one.
  static func named(_ reports: [WrittenReport]) -> [WrittenReport] { isEmulated ? reports.suffix(1) : reports.named }

  /// The events of such a stall: on an emulated processor, without those that are there because it takes longer.
  static func events(_ reports: [WrittenReport]) -> [String] {
    reports.map(\.event).filter { !isEmulated || $0 != "stall.ongoing" }
  }
}

extension CaptureFailure {
  /// The machine gave the thread no processor, or took it away in the middle: another attempt may fare better.
  var isOfABusyMachine: Bool {
    switch self {
    case .noAnswer, .pending, .noProcessor, .moving, .busy: true
    default: false
    }
  }
}

extension ThreadCapture {
  /// Takes a thread's stack.
  ///
  /// It tries repeatedly while the machine is too busy, for five seconds at most.
  func captureWithPatience(
    _ probe: borrowing ThreadProbe, orWhile isToBeTakenAgain: (CaptureFailure) -> Bool = \.isOfABusyMachine
  ) -> ThreadSnapshot {
    var moment = capture(probe, stackEnd: 0)
    for _ in 0..<1000 {
      guard case .failure(let failure) = moment.backtrace, isToBeTakenAgain(failure) else { break }
      usleep(5000)
      moment = capture(probe, stackEnd: 0)
    }
    return moment
  }
}
