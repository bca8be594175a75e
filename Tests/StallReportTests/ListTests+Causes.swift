import Foundation
import TestSupport
import Testing

@testable import StallReport

extension ListTests {
  @Test("each page about causes lists all causes")
  func causesOfThePages() throws {
    let reports = try text("Documentation/Internals/Reports.md")
    let section = try #require(reports.components(separatedBy: "\n## ").first { $0.hasPrefix("Cause\n") })
    for cause in Cause.allCases { #expect(section.contains("`\(cause.rawValue)`"), "Internals/Reports.md: \(cause)") }
    let contract = try text("Documentation/ReportContract.md")
    let sentence = try #require(contract.components(separatedBy: "`stall.cause` is `unknown`").dropFirst().first)
    for cause in Cause.allCases where cause.isKeptFromRunning {
      #expect(sentence.prefix(100).contains("`\(cause.rawValue)`"), "ReportContract.md: \(cause)")
    }
  }

  @Test("the benchmark of reports has each cause")
  func causesOfTheBenchmark() throws {
    let script = try text("Benchmarks/Report/generate.py")
    let list = try #require(script.split(separator: "\n").first { $0.hasPrefix("CAUSES = [") })
    #expect(Set(list.matches(of: /"(\w+)"/).map { String($0.1) }) == Set(Cause.allCases.map(\.rawValue)))
  }

  /// The test that provokes a cause, with its file; nil if the corpus does.
  private func provocation(of cause: Cause) -> (test: String, file: String)? {
    switch cause {
    case .running, .lock, .io, .sleep: nil
    case .starved: ("loopWithoutAProcessorIsStarved", "CauseTests")
    case .throttled: ("loopOverItsQuotaIsThrottled", "CauseTests")
    case .fault: ("loopThatReadsItsMemoryFromDiskIsInFaults", "CauseTests")
    case .unknown: ("threadThatIsNotKnownIsNotGuessed", "HeartbeatTests")
    case .stopped: ("stoppedProcessIsReportedOnceAndNamesNoFunction", "HealthyHostTests")
    }
  }

  @Test("each cause has a stall in the corpus, or a test that is named here")
  func causesAreProvoked() throws {
    let recorded = try text("Tests/Corpus/stalls/expected.tsv").split(separator: "\n").dropFirst()
      .map { $0.split(separator: "\t", omittingEmptySubsequences: false)[2] }
    for cause in Cause.allCases {
      if let (test, file) = provocation(of: cause) {
        #expect(try text("Tests/StallMonitorTests/\(file).swift").contains("func \(test)("), "\(cause)")
      } else {
        #expect(recorded.contains { $0 == cause.rawValue }, "expected.tsv: \(cause)")
      }
    }
  }

  @Test("AgentSecurity.md has each file of the system that the library opens")
  func filesOfTheLibrary() throws {
    let parts = try text("Documentation/AgentSecurity.md").components(separatedBy: "\n## The library\n")
    let page = try #require(parts.last?.components(separatedBy: "\n## ").first)
    let listed = page.matches(of: /`(\/[^`]+)`/).map { String($0.1) }
    for target in ["StallCapture", "StallMonitor", "CUnwind", "CSymbols", "DescriptorIO", "CLinux"] {
      let folder = Repository.file("Sources/\(target)")
      for file in try FileManager.default.subpathsOfDirectory(atPath: folder.path)
      where file.hasSuffix(".swift") || file.hasSuffix(".c") {
        // "/proc/" and a number is another process's, which the library does not read.
        for path in try text("Sources/\(target)/\(file)").matches(of: /"(\/(?:proc|sys|dev|run)\/[^"\\%]+)/) {
          #expect(listed.contains { path.1.hasPrefix($0) }, "\(target)/\(file): \(path.1)")
        }
      }
    }
  }
}
