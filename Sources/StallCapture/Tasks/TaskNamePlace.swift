import CLinux
import Synchronization

/// Where a task has its name: in one of its status records, which are a list.
struct TaskNamePlace: Sendable, Equatable {
  /// Where a task has its first status record.
  let firstRecord: UInt64
  /// The kind of record that has a name.
  ///
  /// A record is its kind, the next record, and here the name.
  let kind: UInt64

  /// How many records are read.
  private static let recordLimit = 16
  /// How much of a task is searched.
  private static let searchedSize: UInt64 = 512
  private static let longestName = 200

  /// Finds it with named tasks of its own; nil unless it is the same in each and a task without a name has none.
  init?(testedIn process: ProcessHandle) {
    guard let first = Self.places(inTaskNamed: "stall-probe-one", process),
      let second = Self.places(inTaskNamed: "stall-probe-another", process)
    else { return nil }
    let both = first.filter { second.contains($0) }
    guard both.count == 1, let place = both.first, Self.hasNoName(place, process) else { return nil }
    self = place
  }

  private init(firstRecord: UInt64, kind: UInt64) { (self.firstRecord, self.kind) = (firstRecord, kind) }

  private final class Findings: Sendable {
    let places = Mutex<[TaskNamePlace]>([])
    let name = Mutex<String?>("none was read")
  }

  private static func places(inTaskNamed name: String, _ process: ProcessHandle) -> [TaskNamePlace]? {
    let findings = Findings()
    let probe = ProbeTask(name: name) { task in
      let found = stride(from: UInt64(0), to: searchedSize, by: 8).compactMap { offset in
        kind(ofRecordNamed: name, of: task, at: offset, in: process).map {
          TaskNamePlace(firstRecord: offset, kind: $0)
        }
      }
      findings.places.withLock { $0 = found }
    }
    return probe == nil ? nil : findings.places.withLock { $0 }
  }

  private static func hasNoName(_ place: TaskNamePlace, _ process: ProcessHandle) -> Bool {
    let findings = Findings()
    let probe = ProbeTask { task in findings.name.withLock { $0 = place.name(of: task, in: process) } }
    return probe != nil && findings.name.withLock { $0 } == nil
  }

  private static func kind(
    ofRecordNamed name: String, of task: UInt64, at offset: UInt64, in process: ProcessHandle
  ) -> UInt64? {
    records(of: task, from: offset, in: process) {
      $0.1 != 0 && process.string(at: $0.1, limit: longestName) == name
    }?.kind
  }

  /// The first record of the list that `isWanted`; its kind, and what follows the link.
  private static func records(
    of task: UInt64, from offset: UInt64, in process: ProcessHandle, isWanted: (_ record: (UInt64, UInt64)) -> Bool
  ) -> (kind: UInt64, value: UInt64)? {
    var record = process.load(task &+ offset, as: UInt64.self) ?? 0
    for _ in 0..<recordLimit where record != 0 && record % 8 == 0 {
      guard let words = process.load(record, as: (UInt64, UInt64, UInt64).self) else { return nil }
      if isWanted((words.0, words.2)) { return (words.0, words.2) }
      record = words.1
    }
    return nil
  }

  /// The name of a task, which may be gone.
  func name(of task: UInt64, in process: ProcessHandle) -> String? {
    guard let record = Self.records(of: task, from: firstRecord, in: process, isWanted: { $0.0 == kind }) else {
      return nil
    }
    return process.string(at: record.value, limit: Self.longestName)
  }
}
