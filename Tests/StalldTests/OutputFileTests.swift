import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// A file that the agent writes, as a shipper and an operator find it.
@Suite(
  .serialized, .takingTurns,
  .timeLimit(.minutes(3)))
final class OutputFileTests {
  let scratch: ScratchDirectory
  let path: String
  var settings: AgentSettings.Output.File

  init() throws {
    scratch = try ScratchDirectory()
    path = scratch.url.appending(path: "stalls.jsonl").path
    settings = AgentSettings.Output.File(path: path)
  }

  private func put(_ text: String, in path: String? = nil) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path ?? self.path))
  }

  private var names: [String] {
    get throws { try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).sorted() }
  }

  @Test func linesAreWrittenInOrderAndReportedAsDone() throws {
    let bench = try OutputBench(file: settings)
    for start in stride(from: 0, to: 1000, by: 10) { bench.submit(start..<start + 10) }
    try bench.waitUntilDone(1000)
    #expect(try OutputBench.numbers(in: path) == Array(0..<1000))
    let counters = try #require(bench.writer.counters().outputs.first)
    #expect(counters.lines == 1000)
    #expect(counters.bytes == 200_000)
    #expect(counters.queuedLines == 0)
    bench.stop()
    #expect(bench.done == 1000)
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o640)
    #expect(bench.said.isEmpty)
  }

  #if compiler(>=6.3)  // Exit tests that capture values.
  @Test func linesThatWaitTogetherAreWrittenTogether() async throws {
    await #expect(processExitsWith: .success) { [path = path as String] in
      let count = SharedCount()
      let writer = try OutputWriter(settings: [.file(.init(path: path))]) { _ = count.add($0) }
      /// How often the output's thread has called write(2).
      func writes() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").reduce(0) { sum, thread in
          let name = try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8)
          guard name == "stalld-output\n" else { return sum }
          let lines = try String(contentsOfFile: "/proc/self/task/\(thread)/io", encoding: .utf8).split(separator: "\n")
          return try sum + #require(lines.first { $0.hasPrefix("syscw: ") }.flatMap { Int($0.dropFirst(7)) })
        }
      }
      writer.submit([OutputBench.line(0)])
      try waitUntil { count.value == 1 }
      let before = try writes()
      writer.submit((1...1000).map { OutputBench.line($0) })
      try waitUntil { count.value == 1001 }
      let more = try writes() - before
      exit(more > 0 && more < 20 ? 0 : 1)
    }
    #expect(try OutputBench.numbers(in: path) == Array(0...1000))
  }
  #endif

  @Test(arguments: [
    (#"{"number":1}"# + "\n" + #"{"numb"#, #"{"number":1}"# + "\n"),
    (#"{"@times"#, ""),
    (#"{"number":1}"# + "\n\0\0\0", #"{"number":1}"# + "\n"),
    // Not ours: nothing of it is lost.
    ("notes of an operator", "notes of an operator\n"),
    ("whole\n", "whole\n"),
  ])
  func halfLineOfAnEarlierRunIsCutOff(found: String, left: String) throws {
    try put(found)
    let bench = try OutputBench(file: settings)
    bench.submit([7])
    bench.stop()
    let expected = left + String(decoding: OutputBench.line(7).bytes, as: UTF8.self)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == expected)
  }

  @Test func longHalfLineIsCutOffAndLongForeignTextIsKept() throws {
    let half = "{" + String(repeating: "x", count: 300_000)
    try put("whole\n" + half)
    try OutputBench(file: settings).stop()
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "whole\n")
    let foreign = String(repeating: "{", count: 1_200_000)
    try put(foreign)
    try OutputBench(file: settings).stop()
    #expect(try String(contentsOfFile: path, encoding: .utf8) == foreign + "\n")
  }

  @Test(arguments: ["link", "directory", "pipe", "missing/directory/file"])
  func pathThatIsNoFileIsNamed(kind: String) throws {
    let bad = scratch.url.appending(path: kind).path
    try put("not to be touched\n")
    switch kind {
    case "link": try FileManager.default.createSymbolicLink(atPath: bad, withDestinationPath: path)
    case "directory": mkdir(bad, 0o755)
    case "pipe": mkfifo(bad, 0o644)
    default: break
    }
    let error = #expect(throws: OutputError.self) { try OutputBench(file: .init(path: bad)) }
    #expect(error?.description.contains(bad) == true, "\(String(describing: error))")
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "not to be touched\n")
  }

  // MARK: Rotation

  @Test func longFileIsReplacedAndTheOldOneCompressed() throws {
    settings.maxSize = 10_000
    let bench = try OutputBench(file: settings)
    for start in stride(from: 0, to: 400, by: 20) { bench.submit(start..<start + 20) }
    try bench.waitUntilDone(400)
    try waitUntil { RotatedFile.all(besides: path).allSatisfy { $0.form == .compressed } }
    #expect(bench.writer.counters().outputs[0].rotations == 7)
    let rotated = RotatedFile.all(besides: path)
    #expect(rotated.count == 7)
    #expect(try OutputBench.allNumbers(besides: path) == Array(0..<400))
    #expect(
      try names.filter { $0.hasSuffix(".jsonl") } == ["stalls.jsonl"], "a shipper's *.jsonl finds no rotated file")
    #expect(try OutputBench.numbers(in: path).count == 50)
    bench.stop()
    #expect(bench.said.isEmpty)
    var status = stat()
    #expect(stat(rotated[0].path, &status) == 0 && status.st_mode & 0o777 == 0o640)
  }

  @Test func oldestRotatedFilesAreRemovedAndNothingElse() throws {
    (settings.maxSize, settings.keep, settings.compress) = (1000, 3, .none)
    let others = [
      "stalls.jsonl.1", "stalls.jsonl.notes.gz", "stalls.jsonl.2026-11-21T10-39-12.123456Z.bak",
      "other.jsonl.2026-11-21T10-39-12.123456Z",
    ]
    for name in others { try put("kept", in: scratch.url.appending(path: name).path) }
    let bench = try OutputBench(file: settings)
    bench.submit(0..<100)
    try bench.waitUntilDone(100)
    try waitUntil { RotatedFile.all(besides: path).count == 3 }
    #expect(try OutputBench.allNumbers(besides: path) == Array(80..<100))
    #expect(try Set(names).isSuperset(of: others))
    bench.stop()
  }

  /// The clock may go backwards: names still show the order.
  @Test func rotatedNamesSortByAgeAlsoWhenTheClockGoesBack() throws {
    (settings.maxSize, settings.compress) = (1000, .none)
    try put(#"{"number":-1}"# + "\n", in: path + ".2089-01-02T03-04-05.999999Z")
    let bench = try OutputBench(file: settings)
    bench.submit(0..<12)
    bench.stop()
    #expect(try OutputBench.allNumbers(besides: path) == Array(-1..<12))
    #expect(try names.contains("stalls.jsonl.2089-01-02T03-04-06.000000Z"))
  }

  /// rename(2) would replace what has the name of the next rotated file: a second agent's, or another program's.
  @Test func aRotatedFileTakesNoNameThatIsTaken() throws {
    (settings.maxSize, settings.compress) = (1000, .none)
    let taken = ["00Z", "01Z", "02Z"].map { path + ".2089-01-02T03-04-05.0000" + $0 }
    try put(#"{"number":-1}"# + "\n", in: taken[0])
    let bench = try OutputBench(file: settings)
    // Made after the agent has read the directory.
    mkdir(taken[1], 0o755)
    symlink("/dev/null", taken[2])
    bench.submit(0..<12)
    bench.stop()
    let second = try OutputBench(file: settings)
    second.submit(12..<24)
    second.stop()
    #expect(try OutputBench.allNumbers(besides: path) == Array(-1..<24))
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: taken[2]) == "/dev/null")
    #expect(bench.said.isEmpty && second.said.isEmpty)
  }

  /// There is no later name: what comes then sorts before it, and replaces nothing.
  @Test func theLastMomentOfAllIsNoEndOfRotation() throws {
    (settings.maxSize, settings.compress) = (1000, .none)
    try put(#"{"number":-1}"# + "\n", in: path + ".9999-12-31T23-59-59.999999Z")
    for start in [0, 12] {
      let bench = try OutputBench(file: settings)
      bench.submit(start..<start + 12)
      bench.stop()
    }
    #expect(try Set(OutputBench.allNumbers(besides: path)) == Set(-1..<24))
  }

  /// copytruncate of logrotate: the file is short again, and is not renamed for the size that it had.
  @Test func aFileThatWasTruncatedIsNotRotatedForItsOldSize() throws {
    (settings.maxSize, settings.compress) = (1000, .none)
    let bench = try OutputBench(file: settings)
    bench.submit(0..<5)
    try bench.waitUntilDone(5)
    truncate(path, 0)
    bench.submit(5..<7)
    bench.stop()
    #expect(try OutputBench.numbers(in: path) == [5, 6] && RotatedFile.all(besides: path).isEmpty)
  }

  /// A name that only looks like a time is not a rotated file, and the latest possible time causes
  /// no error.
  @Test func onlyTimesAreRotatedNames() throws {
    for moment in ["2026-13-01T00-00-00.000000Z", "2026-01-32T00-00-00.000000Z", "2026-01-01T24-00-00.000000Z"] {
      #expect(RotatedName(moment: moment) == nil, "\(moment)")
    }
    let last = try #require(RotatedName(moment: "9999-12-31T23-59-58.999999Z"))
    #expect(RotatedName.next(after: last).moment == "9999-12-31T23-59-59.000000Z")
    let latest = try #require(RotatedName(moment: "9999-12-31T23-59-59.999999Z"))
    #expect(RotatedName(moment: RotatedName.next(after: latest).moment) != nil)
    let past = try #require(RotatedName(moment: "2001-01-01T00-00-00.000000Z"))
    let now = RotatedName.next(after: past)
    #expect(now > past && RotatedName(moment: now.moment) == now)
    #expect(RotatedName.next(after: nil) >= now)
  }

  @Test func ageIsNotResetByARestart() throws {
    (settings.maxAge, settings.compress) = (.seconds(2), .none)
    let first = try OutputBench(file: settings)
    first.submit(0..<3)
    first.stop()
    usleep(2_100_000)
    let second = try OutputBench(file: settings)
    #expect(RotatedFile.all(besides: path).isEmpty, "an idle agent does nothing")
    second.submit(3..<5)
    second.stop()
    #expect(try OutputBench.numbers(in: path) == [3, 4])
    #expect(try OutputBench.numbers(in: #require(RotatedFile.all(besides: path).first).path) == [0, 1, 2])
  }

  /// A clock that was wrong when the file was made does not keep it for ever.
  @Test func aFileBornInTheFutureIsRotated() {
    func isTooOld(after seconds: Int) -> Bool {
      FileDestination.isTooOld(birth: 1_000_000, now: 1_000_000 + seconds, limit: .seconds(60))
    }
    #expect(isTooOld(after: 60) && isTooOld(after: 1_000_000))
    #expect(!isTooOld(after: 59) && !isTooOld(after: 0) && !isTooOld(after: -59))
    #expect(isTooOld(after: -60) && isTooOld(after: -1_000_000))
  }

  // MARK: Compression

  /// The paths of rotated files, and their text.
  private func putRotated(_ count: Int) throws -> [String] {
    let moments = (1...count).map { path + ".2026-11-21T10-39-\($0 + 10).000000Z" }
    for (number, moment) in moments.enumerated() { try put("{\"number\":\(number)}\n", in: moment) }
    return moments
  }

  @Test func compressionThatWasCutOffIsFinishedAtTheNextStart() throws {
    let moments = try putRotated(3)
    let part = RotatedFile.unfinished(of: moments[0])
    #expect((part as NSString).lastPathComponent.hasPrefix(".stalls.jsonl.2026"), "no glob of reports matches it")
    try put("half of", in: part)
    // Ended between the naming of the archive and the removal of the plain file.
    let plain = try Data(contentsOf: URL(fileURLWithPath: moments[1]))
    try GzipFile.compress(moments[1]) { false }
    try plain.write(to: URL(fileURLWithPath: moments[1]))
    let bench = try OutputBench(file: settings)
    try waitUntil { try names == ["stalls.jsonl"] + moments.map { ($0 as NSString).lastPathComponent + ".gz" } }
    #expect(try OutputBench.allNumbers(besides: path) == [0, 1, 2])
    bench.stop()
    #expect(bench.said.isEmpty)
  }

  /// One that another program has begun, or finished, or that is no archive at all.
  @Test(arguments: [AgentSettings.Output.Compression.gzip, .none])
  func aRotatedFileStaysBesideAnArchiveThatTheAgentDidNotMake(_ compress: AgentSettings.Output.Compression) throws {
    (settings.compress, settings.maxSize, settings.keep) = (compress, 1000, 100)
    let makers: [(String) throws -> Void] = [
      { try Data().write(to: URL(fileURLWithPath: $0 + ".gz")) },
      { try #expect(Program.run(#require(Program.installed("gzip")), ["-k", $0]).status == 0) },
      {
        try #expect(Program.run(#require(Program.installed("gzip")), ["-k", $0]).status == 0)
        truncate($0 + ".gz", 20)
      },
      { try Data("{}\n".utf8).write(to: URL(fileURLWithPath: $0 + ".gz")) },
      { symlink($0, $0 + ".gz") }, { link($0, $0 + ".gz") }, { mkdir($0 + ".gz", 0o755) },
      { mkfifo($0 + ".gz", 0o644) },
    ]
    let moments = try putRotated(makers.count)
    for (moment, make) in zip(moments, makers) { try make(moment) }
    func inodes() -> [UInt64] {
      moments.flatMap { [$0, $0 + ".gz"] }.map { name in
        var status = stat()
        return lstat(name, &status) == 0 ? UInt64(status.st_ino) : 0
      }
    }
    let before = inodes()
    #expect(!before.contains(0))
    for _ in 1...2 {
      let bench = try OutputBench(file: settings)
      // Each rotation tries them again.
      for number in 0..<6 {
        bench.submit([number], size: 900)
        try bench.waitUntilDone(number + 1)
      }
      if compress == .gzip {
        try waitUntil { bench.errors.count >= moments.count }
        try waitUntil { RotatedFile.all(besides: path).count { $0.form == .plain && !moments.contains($0.path) } == 0 }
      }
      bench.stop()
      let expected = moments.map {
        "error: file \($0): cannot compress: \($0).gz exists, and this agent did not make it; move it away"
      }
      #expect(bench.said == (compress == .gzip ? expected : []), "once for each")
      #expect(inodes() == before)
      for (number, moment) in moments.enumerated() { #expect(try OutputBench.numbers(in: moment) == [number]) }
    }
  }

  /// A disk that lies, or a copy that was cut off.
  @Test func aRotatedFileStaysBesideADamagedArchive() throws {
    let changes: [(inout Data) -> Void] = [
      { $0.removeLast() }, { $0.removeLast(9) }, { $0[$0.count - 6] ^= 1 }, { $0[30] ^= 1 }, { $0 = $0.prefix(18) },
    ]
    let moments = try putRotated(changes.count + 1)
    for (moment, change) in zip(moments, changes) {
      let plain = try Data(contentsOf: URL(fileURLWithPath: moment))
      try GzipFile.compress(moment) { false }
      var archive = try Data(contentsOf: URL(fileURLWithPath: moment + ".gz"))
      change(&archive)
      try archive.write(to: URL(fileURLWithPath: moment + ".gz"))
      try plain.write(to: URL(fileURLWithPath: moment))
    }
    // A plain file that has grown since.
    let grown = moments[changes.count]
    try GzipFile.compress(grown) { false }
    try put("{\"number\":\(changes.count)}\n{\"number\":99}\n", in: grown)
    let bench = try OutputBench(file: settings)
    try waitUntil { bench.errors.count == moments.count }
    bench.stop()
    for (number, moment) in moments.enumerated() {
      #expect(try OutputBench.numbers(in: moment) == [number] + (moment == grown ? [99] : []))
      #expect(FileManager.default.fileExists(atPath: moment + ".gz"))
      let reason = "cannot compress: \(moment).gz is incomplete or has other content; move it away"
      #expect(bench.said.contains("error: file \(moment): \(reason)"))
    }
  }

  @Test func archivesOfOtherProgramsAreNeitherRemovedNorCounted() throws {
    (settings.maxSize, settings.keep) = (1000, 3)
    let moments = try putRotated(4)
    // Of an old file, of one that gzip(1) has replaced, and of times to come.
    try put("", in: moments[0] + ".gz")
    #expect(try Program.run(#require(Program.installed("gzip")), [moments[1]]).status == 0)
    let later = (1...3).map { path + ".2089-01-0\($0)T00-00-00.000000Z.gz" }
    for file in later { try put("", in: file) }
    // A link with such a name is no rotated file.
    #expect(symlink(moments[3], path + ".2026-11-20T00-00-00.000000Z") == 0)
    let bench = try OutputBench(file: settings)
    bench.submit(0..<6, size: 900)
    try bench.waitUntilDone(6)
    let others = [moments[0] + ".gz", moments[1] + ".gz"] + later
    func own() -> [RotatedFile] { RotatedFile.all(besides: path).filter { !others.contains($0.path) } }
    try waitUntil { own().count == 3 && own().allSatisfy { $0.form == .compressed } }
    bench.stop()
    #expect(
      try own().sorted { $0.name < $1.name }.flatMap { try OutputBench.numbers(compressed: $0.path) } == [2, 3, 4])
    for file in others { #expect(FileManager.default.fileExists(atPath: file), "\(file)") }
    #expect(try names.contains("stalls.jsonl.2026-11-20T00-00-00.000000Z"))
  }

  // MARK: Rotation from outside

  @Test func fileThatWasRenamedIsReleased() throws {
    let bench = try OutputBench(file: settings)
    bench.submit([0])
    try bench.waitUntilDone(1)
    rename(path, path + ".1")
    bench.writer.reopen()
    bench.submit([1])
    try bench.waitUntilDone(2)
    #expect(try OutputBench.numbers(in: path + ".1") == [0])
    #expect(try OutputBench.numbers(in: path) == [1])
    // Without a message: noticed while lines come.
    rename(path, path + ".2")
    var number = 2
    try waitUntil {
      bench.submit([number])
      number += 1
      usleep(50_000)
      return FileManager.default.fileExists(atPath: path)
    }
    unlink(path)
    try waitUntil {
      bench.submit([number])
      number += 1
      usleep(50_000)
      return FileManager.default.fileExists(atPath: path)
    }
    bench.stop()
    let second = try OutputBench.numbers(in: path + ".2")
    #expect(second == Array(1...second.last!))
    #expect(try OutputBench.numbers(in: path).last == number - 1)
  }

  /// The configuration that operators install, run under load.
  @Test(.enabled(if: Program.installed("logrotate") != nil, "logrotate is missing (Debian: logrotate)"))
  func nothingIsLostOrDuplicatedUnderLogrotate() throws {
    (settings.maxSize, settings.maxAge) = (nil, nil)
    let bench = try OutputBench(file: settings)
    // What the agent's own SIGHUP would do.
    let told = scratch.url.appending(path: "hup").path
    let configuration = scratch.url.appending(path: "logrotate.conf")
    let user = String(cString: getpwuid(getuid()).pointee.pw_name)
    let group = String(cString: getgrgid(getgid()).pointee.gr_name)
    try String(contentsOf: Repository.file("Config/logrotate/stalld"), encoding: .utf8)
      .replacing("/var/log/stalld/stalls.jsonl", with: path)
      .replacing("stalld stalld", with: "\(user) \(group)")
      .replacing("systemctl kill --kill-who=main --signal=HUP stalld.service", with: "touch \(told)")
      .write(to: configuration, atomically: true, encoding: .utf8)
    // It refuses directories and configurations that others may write.
    chmod(scratch.url.path, 0o755)
    chmod(configuration.path, 0o644)
    // logrotate leaves an empty file as it is.
    bench.submit(0..<20)
    try bench.waitUntilDone(20)
    var number = 20
    for _ in 1...4 {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: Program.installed("logrotate")!)
      process.arguments = ["--force", "--state", scratch.url.appending(path: "state").path, configuration.path]
      let errors = Pipe()
      process.standardError = errors
      try process.run()
      while process.isRunning || access(told, F_OK) == 0 {
        bench.submit(number..<number + 20)
        number += 20
        if unlink(told) == 0 { bench.writer.reopen() }
        usleep(1000)
      }
      let complaint = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      #expect(process.terminationStatus == 0 && complaint.isEmpty, "\(complaint)")
      bench.submit(number..<number + 20)
      number += 20
      try bench.waitUntilDone(number)
    }
    bench.submit(number..<number + 1)
    bench.stop()
    let rotated = try names.filter { $0.hasPrefix("stalls.jsonl.") }
    #expect(rotated.sorted() == ["stalls.jsonl.1", "stalls.jsonl.2.gz", "stalls.jsonl.3.gz", "stalls.jsonl.4.gz"])
    let lines = try (2...4).reversed().flatMap { try OutputBench.numbers(compressed: "\(path).\($0).gz") }
    #expect(try lines + OutputBench.numbers(in: path + ".1") + OutputBench.numbers(in: path) == Array(0...number))
  }

  // MARK: Ends

  #if compiler(>=6.3)  // Exit tests that capture values.
  /// Killed while it writes lines of many pages: what was reported as written is there, and no half
  /// line is left.
  @Test func nothingThatIsDoneIsLostWhenTheAgentIsKilled() async throws {
    var acknowledged = 0
    for round in 0..<8 {
      let base = round * 1_000_000
      _ = await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, base = base as Int] in
        let done = open(path + ".done", O_RDWR | O_CREAT, 0o600)
        let count = SharedCount()
        let writer = try OutputWriter(settings: [.file(.init(path: path, maxSize: 1 << 30))]) { more in
          var sum = count.add(more)
          pwrite(done, &sum, 8, 0)
        }
        let end = ContinuousClock.now + .milliseconds(Int.random(in: 5...60))
        var number = base
        // A slow machine may not get one line done until then: each other time, one is.
        let mayHaveNone = base.isMultiple(of: 2_000_000)
        while true {
          writer.submit([OutputBench.line(number, size: 200_000)])
          number += 1
          if ContinuousClock.now > end, mayHaveNone || count.value > 0 { kill(getpid(), SIGKILL) }
          if number - base > Int(count.value) + 100 { usleep(100) }
        }
      }
      // Empty if the end came before the first line was done.
      let told = (try? Data(contentsOf: URL(fileURLWithPath: path + ".done"))) ?? Data()
      let count = told.isEmpty ? 0 : told.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
      acknowledged += count
      unlink(path + ".done")
      let bench = try OutputBench(file: settings)
      bench.submit([base + 999_999])
      bench.stop()
      let written = try OutputBench.numbers(in: path)
      #expect(written.last == base + 999_999)
      #expect(written.count >= count + 1)
      #expect(Array(written.dropLast()) == Array(base..<base + written.count - 1))
      unlink(path)
    }
    #expect(acknowledged > 0)
  }

  /// A limit of the process for files is no signal to it, and a new file has space again.
  @Test func fileAtTheLimitOfTheProcessIsReplaced() async throws {
    await #expect(processExitsWith: .success) { [path = path as String] in
      var limit = rlimit(rlim_cur: 10_000, rlim_max: 10_000)
      setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      let count = SharedCount()
      let writer = try OutputWriter(settings: [.file(.init(path: path, compress: .none))]) { _ = count.add($0) }
      writer.submit((0..<30).map { OutputBench.line($0, size: 1024) })
      writer.stop(within: .seconds(30))
      exit(count.value == 30 ? 0 : 1)
    }
    #expect(try OutputBench.allNumbers(besides: path) == Array(0..<30))
  }

  @Test func idleWriterNeverWakesUp() async throws {
    await #expect(processExitsWith: .success) { [path = path as String] in
      let count = SharedCount()
      let writer = try OutputWriter(settings: [.file(.init(path: path))]) { _ = count.add($0) }
      let details = try DetailStore(settings: .init(directory: path + ".details"))
      writer.submit([OutputBench.line(0)])
      while count.value == 0 { usleep(1000) }
      // How often each of the three threads that sleep has gone to sleep.
      func sleeps() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").sorted().compactMap { thread in
          // Another thread may have ended meanwhile.
          let text = (try? String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8)) ?? ""
          guard text.contains("stalld-"), text.contains("State:\tS") else { return nil }
          return text.split(separator: "\n").first { $0.hasPrefix("voluntary") }.map { "\(thread) \($0)" }
        }
      }
      // What they do at first takes its time: the one for rotated files is of the lowest priority.
      let deadline = ContinuousClock.now + .seconds(60)
      var before: [String] = []
      repeat {
        before = try sleeps()
        usleep(500_000)
      } while try (before.count != 3 || sleeps() != before) && ContinuousClock.now < deadline
      usleep(1_500_000)
      let after = try sleeps()
      details.stop(within: .seconds(1))
      exit(before.count == 3 && before == after ? 0 : 1)
    }
  }
  #endif
}

/// A number that a child process counts up on the writer's thread.
final class SharedCount: @unchecked Sendable {
  // @unchecked: only ever touched under the lock.
  private let lock = NSLock()
  private var sum = 0

  var value: Int { lock.withLock { sum } }

  func add(_ more: Int) -> Int {
    lock.withLock {
      sum += more
      return sum
    }
  }
}
