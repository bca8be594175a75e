import CLinux
import Foundation
import Glibc
import StallMonitor
import Synchronization
import TestSupport
import Testing

@testable import stalld

/// The detail files of stalls.
struct DetailStoreTests {
  let scratch: ScratchDirectory
  let directory: URL

  init() throws {
    scratch = try ScratchDirectory()
    directory = scratch.url.appending(path: "stalls")
  }

  private func id(_ number: Int) -> String { String(repeating: "0", count: 30) + String(number + 10) }

  private var names: Set<String> {
    get throws { Set(try FileManager.default.contentsOfDirectory(atPath: directory.path)) }
  }

  private func put(_ name: String, bytes: Int, daysOld: Double) throws {
    let url = directory.appending(path: name)
    try Data(count: bytes).write(to: url)
    let date = Date(timeIntervalSinceNow: -daysOld * 86_400)
    try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: url.path)
  }

  @Test func filesAreWrittenWholeAndReplaced() throws {
    let store = try DetailStore(settings: .init(directory: directory.path))
    let told = SharedCount()
    let directory = directory
    for text in ["first", "second"] {
      store.write(id: id(1), of: 7, in: .init(user: 7), Array(text.utf8)) { path in
        if path == directory.path + "/" + String(repeating: "0", count: 30) + "11.7.json" { _ = told.add(1) }
      }
    }
    store.stop(within: .seconds(30))
    #expect(told.value == 2)
    #expect(try String(contentsOf: directory.appending(path: id(1) + ".7.json"), encoding: .utf8) == "second")
    #expect(try names.count == 1)
    #expect(store.counters() == .init(written: 2, files: 1, bytes: 6))
    var status = stat()
    #expect(stat(directory.appending(path: id(1) + ".7.json").path, &status) == 0 && status.st_mode & 0o777 == 0o640)
  }

  @Test(arguments: [
    "", "../../../etc/passwd", String(repeating: "A", count: 32), String(repeating: "a", count: 31) + "/",
  ])
  func nameThatIsNoIdentityIsRefused(id: String) throws {
    let store = try DetailStore(settings: .init(directory: directory.path))
    store.write(id: id, of: 0, in: .init(user: 0), [1])
    store.stop(within: .seconds(30))
    #expect(try names.isEmpty)
    #expect(store.counters().dropped == 1)
  }

  @Test func oldestFilesAreDeletedByAgeAndByBytes() throws {
    mkdir(directory.path, 0o755)
    for number in 0..<6 { try put(id(number) + ".json", bytes: 1000, daysOld: Double(20 - 3 * number)) }
    let store = try DetailStore(
      settings: .init(directory: directory.path, maxAge: .seconds(10 * 86_400), maxSize: 2500))
    #expect(try names == [id(4) + ".json", id(5) + ".json"])
    store.write(id: id(8), of: 7, in: .init(user: 7), [UInt8](repeating: 32, count: 1200))
    store.write(id: id(9), of: 7, in: .init(user: 7), [UInt8](repeating: 32, count: 3000))
    store.stop(within: .seconds(30))
    #expect(try names == [id(5) + ".json", id(8) + ".7.json"])
    #expect(store.counters() == .init(written: 1, dropped: 1, removed: 5, files: 2, bytes: 2200))
  }

  @Test func userWithTheMostFilesLosesOne() throws {
    let settings = AgentSettings.Details(directory: directory.path, maxSize: 10_000)
    var store = try DetailStore(settings: settings)
    store.write(id: id(1), of: 1, in: .init(user: 1), [UInt8](repeating: 32, count: 1000))
    for number in 10..<30 {
      store.write(id: id(number), of: 2, in: .init(user: 2), [UInt8](repeating: 32, count: 1000))
    }
    store.stop(within: .seconds(30))
    #expect(try names == Set((21..<30).map { id($0) + ".2.json" } + [id(1) + ".1.json"]))
    // Whose they are is known to the next one, too.
    store = try DetailStore(settings: settings)
    for number in 30..<40 {
      store.write(id: id(number), of: 2, in: .init(user: 2), [UInt8](repeating: 32, count: 1000))
    }
    store.stop(within: .seconds(30))
    #expect(try names == Set((31..<40).map { id($0) + ".2.json" } + [id(1) + ".1.json"]))
  }

  /// Root's, for example: each container may be that user's.
  @Test func unitWithTheMostFilesOfAUserLosesOne() throws {
    let settings = AgentSettings.Details(directory: directory.path, maxSize: 10_000)
    let bytes = [UInt8](repeating: 32, count: 1000)
    let (one, two) = (DetailFolder.Share(user: 0, unit: "one.scope"), DetailFolder.Share(user: 0, unit: "a b.scope"))
    var store = try DetailStore(settings: settings)
    store.write(id: id(1), of: 0, in: one, bytes)
    for number in 10..<30 { store.write(id: id(number), of: 0, in: two, bytes) }
    store.stop(within: .seconds(30))
    #expect(try names == Set((21..<30).map { id($0) + ".0.json" } + [id(1) + ".0.json"]))
    // Linux before 6.6 keeps no units of files in memory.
    let folder = open(directory.path, O_RDONLY | O_DIRECTORY)
    defer { close(folder) }
    guard clinux_set_attribute(folder, "user.test", "1") else { return }
    // Another number of the same container's.
    store = try DetailStore(settings: settings)
    for number in 30..<40 { store.write(id: id(number), of: 7, in: two, bytes) }
    store.stop(within: .seconds(30))
    #expect(try names == Set((31..<40).map { id($0) + ".7.json" } + [id(1) + ".0.json"]))
  }

  @Test func whatIsNotOursIsNeitherFollowedNorRemoved() throws {
    mkdir(directory.path, 0o755)
    let outside = scratch.url.appending(path: "outside")
    try Data("kept".utf8).write(to: outside)
    let foreign = ["notes.txt", "\(id(1)).json.bak", "\(id(1)).gz", "a.json", "\(id(1)).x.json", "\(id(1)).07.json"]
    for name in foreign { try put(name, bytes: 5000, daysOld: 100) }
    let (link, folder) = (directory.appending(path: id(2) + ".7.json"), directory.appending(path: id(3) + ".7.json"))
    try FileManager.default.createSymbolicLink(at: link, withDestinationURL: outside)
    mkdir(folder.path, 0o755)
    // What a killed agent has left is ours.
    try put("\(id(4)).json.part", bytes: 10, daysOld: 0)
    let store = try DetailStore(settings: .init(directory: directory.path, maxAge: .seconds(60), maxSize: 100))
    let before = Set(foreign + [link.lastPathComponent, folder.lastPathComponent])
    #expect(try names == before)
    store.write(id: id(2), of: 7, in: .init(user: 7), Array("new".utf8))
    store.write(id: id(3), of: 7, in: .init(user: 7), Array("new".utf8))
    store.stop(within: .seconds(30))
    #expect(try names == before)
    #expect(try String(contentsOf: outside, encoding: .utf8) == "kept")
    #expect(try String(contentsOf: link, encoding: .utf8) == "new")
    #expect(store.counters().dropped == 1)
  }

  @Test func directoryThatIsRemovedIsMadeAgain() throws {
    let parent = scratch.url.appending(path: "state")
    let directory = parent.appending(path: "stalls")
    mkdir(parent.path, 0o755)
    let said = Mutex<[String]>([])
    let store = try DetailStore(settings: .init(directory: directory.path)) { priority, text in
      said.withLock { $0.append("\(priority): \(text)") }
    }
    func write(_ number: Int) throws -> Bool {
      let (done, isWritten) = (SharedCount(), SharedCount())
      store.write(id: id(number), of: 7, in: .init(user: 7), [32]) { path in
        if path != nil { _ = isWritten.add(1) }
        _ = done.add(1)
      }
      try waitUntil { done.value == 1 }
      return isWritten.value == 1
    }
    #expect(try write(1))
    try FileManager.default.removeItem(at: directory)
    #expect(try write(2))
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [id(2) + ".7.json"])

    try FileManager.default.removeItem(at: parent)
    #expect(try !write(3) && !write(4))
    try Data().write(to: parent)
    #expect(try !write(5))
    let what = "error: cannot write detail files in \(directory.path)"
    #expect(said.withLock { $0 } == ["\(what): No such file or directory", "\(what): Not a directory"])
    unlink(parent.path)
    mkdir(parent.path, 0o755)
    #expect(try write(6))
    store.stop(within: .seconds(30))
    #expect(store.counters() == .init(written: 3, dropped: 3, files: 1, bytes: 1))
  }

  @Test func directoryThatCannotBeUsedIsNamed() throws {
    try FileManager.default.createSymbolicLink(at: directory, withDestinationURL: scratch.url)
    let error = #expect(throws: OutputError.self) { try DetailStore(settings: .init(directory: directory.path)) }
    #expect(error?.description.contains(directory.path) == true)
  }
}
