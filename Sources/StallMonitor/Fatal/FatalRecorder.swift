import CLinux
import PlatformLibc
import StallDetection
import StallReport

/// Keeps the report of a stall in progress, for the case that the process ends during the stall.
///
/// While a stall lasts, its report as `stall.fatal` lies in a file; the next start of the same service sends it. Belongs to the
/// watchdog's thread.
final class FatalRecorder {
  private let directory: StateDirectory
  private let prefix: String
  private let earlier: EarlierRecords
  private var hasComplained = false

  /// Records of one service in one directory.
  ///
  /// - Parameters:
  ///   - directory: On tmpfs.
  ///   - service: The service's name, and what else distinguishes it from others in the directory.
  init(directory: StateDirectory, service: [String]) {
    self.directory = directory
    prefix = AbandonedFiles.prefix("stallmonitor", service: service)
    earlier = EarlierRecords(directory: directory, prefix: prefix)
  }

  /// Chooses the directory; without a usable one, logs that and returns nil.
  ///
  /// The configured one, or the one that systemd gave to the service, if it lies in memory; otherwise `/dev/shm`. Call it at start.
  static func make(configured: String?, environment: Environment, serviceName: String) -> FatalRecorder? {
    let named = configured ?? environment.serviceStateDirectory
    do throws(StateDirectory.Failure) {
      if let configured {
        let directory = try StateDirectory(path: configured)
        if directory.isInMemory {
          try directory.checkWritable()
          return FatalRecorder(directory: directory, service: [serviceName, configured])
        }
      } else if let named, let directory = try? StateDirectory(path: named), directory.isInMemory,
        (try? directory.checkWritable()) != nil
      {
        return FatalRecorder(directory: directory, service: [serviceName, named])
      }
    } catch {
      Diagnostics.say(
        "cannot use the state directory \(configured ?? ""): \(error.reason). A stall that ends the service is not reported, unless an agent receives the reports"
      )
      return nil
    }
    let shared = "/dev/shm"
    do throws(StateDirectory.Failure) {
      let directory = try StateDirectory(path: shared)
      guard directory.isInMemory else { throw StateDirectory.Failure(code: ENOTSUP) }
      try directory.checkWritable()
      return FatalRecorder(directory: directory, service: [serviceName, named ?? ""])
    } catch {
      Diagnostics.say(
        "cannot use the in-memory state directory \(shared): \(error.reason). A stall that ends the service is not reported, unless an agent receives the reports; set STALLMONITOR_STATE_DIRECTORY"
      )
      return nil
    }
  }

  /// Keeps a stall's report for the case that the process ends now.
  func keep(_ report: Report, in record: MappedRecord, turn: TurnWord, unless isOver: () -> Bool) {
    let line = report.line()
    if record.isOpen { return record.update(line) }
    // A service that ends in each of its stalls, and whose lines nobody takes, must not fill the memory.
    guard !earlier.isFull else { return }
    do {
      try record.begin(in: directory, name: AbandonedFiles.makeName(prefix), turn: turn.raw, line: line, unless: isOver)
    } catch {
      if !hasComplained {
        Diagnostics.say(
          "cannot record the current stall in \(directory.path): \(error.reason). If it ends the service, it is not reported, unless an agent receives the reports"
        )
      }
      hasComplained = true
    }
  }

  /// Sends what earlier processes of the service left, as far as the sink takes it.
  func sendEarlier(to sink: any RecordOutput) { earlier.send(to: sink) }

  /// The sink has been closed.
  func finish(_ sink: any RecordOutput) { earlier.finish(sink) }
}
