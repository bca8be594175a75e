import Synchronization

/// Where a task has its name, if a self-test has found it.
///
/// The runtime keeps a list of records for each task, one of which has the name: each is a word of flags, the next record, and what it is about.
struct TaskNames: Sendable {
  /// Where a task has its first record.
  let firstRecord: UInt64
  /// The flags of a record that has a name.
  let nameFlags: UInt64

  /// This process's layout, or nil if it is not known.
  ///
  /// The first use runs the self-test, on a thread that is prepared to read memory.
  static let current = TaskNames()

  private static let probeName = "stallmonitor probe"
  private static let searchedSize: UInt64 = 512
  private static let recordLimit = 16
  private static let longestName = 128

  // Two tasks: what holds for the one by chance does not for the other.
  private init?() {
    guard let first = Self.places(for: Self.probeName), let second = Self.places(for: Self.probeName + " 2") else {
      return nil
    }
    let same = first.filter(second.contains)
    guard same.count == 1 else { return nil }
    (firstRecord, nameFlags) = (same[0].offset, same[0].flags)
  }

  private struct Place: Equatable {
    var offset: UInt64
    var flags: UInt64
  }

  /// Where a task of this name has a word that leads to a record with it.
  private static func places(for name: String) -> [Place]? {
    let found = Findings()
    // While it runs: the record ends with it.
    let probe = ProbeTask(name: name) { task in found.places.withLock { $0 = search(task, for: name) } }
    return probe.map { _ in found.places.withLock { $0 } }
  }

  private final class Findings: Sendable {
    let places = Mutex<[Place]>([])
  }

  private static func search(_ task: UInt64, for name: String) -> [Place] {
    let process = OwnProcess()
    return stride(from: UInt64(0), to: searchedSize, by: 8).compactMap { offset in
      guard let record = process.load(task + offset, as: UInt64.self), record % 8 == 0, record > 4096,
        let words = process.load(record, as: (UInt64, UInt64, UInt64).self), text(at: words.2) == name
      else { return nil }
      return Place(offset: offset, flags: words.0)
    }
  }

  /// The name of a task; nil if it has none, or ends meanwhile.
  func name(of task: UInt64) -> String? {
    let process = OwnProcess()
    var record = process.load(task &+ firstRecord, as: UInt64.self) ?? 0
    for _ in 0..<Self.recordLimit {
      guard record > 4096, record % 8 == 0, let words = process.load(record, as: (UInt64, UInt64, UInt64).self) else {
        return nil
      }
      if words.0 == nameFlags { return Self.text(at: words.2) }
      record = words.1
    }
    return nil
  }

  /// A C string, cut after ``longestName`` bytes; nil unless it is text.
  private static func text(at address: UInt64) -> String? {
    guard address > 4096 else { return nil }
    var bytes: [UInt8] = []
    while bytes.count < longestName, let byte = OwnProcess().load(address &+ UInt64(bytes.count), as: UInt8.self),
      byte != 0
    {
      bytes.append(byte)
    }
    let text = String(validating: bytes, as: UTF8.self)
    return text?.isEmpty == false ? text : nil
  }
}
