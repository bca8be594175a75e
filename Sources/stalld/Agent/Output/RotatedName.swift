import FoundationEssentials
import Glibc
import StallReport

/// The name of a rotated file: that of the file, and the moment of its end in UTC.
///
/// `stalls.jsonl.2026-11-21T10-39-12.123456Z`: no shipper's `*.jsonl` matches it, and names sort by age.
struct RotatedName: Comparable, Hashable {
  private static let pattern = Array("0000-00-00T00-00-00.000000Z".utf8)

  /// The part behind the file's own name.
  let moment: String

  /// Nil if the text is no such moment.
  init?(moment: String) {
    let isMoment = moment.utf8.elementsEqual(Self.pattern) { byte, expected in
      expected == UInt8(ascii: "0") ? (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) : byte == expected
    }
    guard isMoment else { return nil }
    self.moment = moment
  }

  /// Microseconds since 1970.
  private init(microseconds: Int) {
    let time = Timestamp(nanosecondsSince1970: UInt64(max(0, microseconds)) * 1000)
    moment = String(time.text(fractionDigits: 6).map { $0 == ":" ? "-" : $0 })
  }

  static func < (one: RotatedName, other: RotatedName) -> Bool { one.moment < other.moment }

  func path(besides file: String) -> String { "\(file).\(moment)" }

  /// A name for now, and newer than the newest there is, whatever the clock was set to.
  static func next(after newest: RotatedName?) -> RotatedName {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    var microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000
    if let newest { microseconds = max(microseconds, newest.microseconds + 1) }
    return RotatedName(microseconds: microseconds)
  }

  private var microseconds: Int {
    let numbers = moment.split { !$0.isNumber }.map { Int($0) ?? 0 }
    var date = tm()
    date.tm_year = Int32(numbers[0] - 1900)
    date.tm_mon = Int32(numbers[1] - 1)
    date.tm_mday = Int32(numbers[2])
    date.tm_hour = Int32(numbers[3])
    date.tm_min = Int32(numbers[4])
    date.tm_sec = Int32(numbers[5])
    return timegm(&date) * 1_000_000 + numbers[6]
  }

  /// The youngest of a file's rotated ones.
  static func newest(besides file: String) -> RotatedName? { RotatedFile.all(besides: file).map(\.name).max() }
}

/// A file beside the one that is written: rotated, compressed, or on the way to it.
struct RotatedFile {
  enum Form: String { case plain = "", compressed = ".gz", unfinished = ".gz.part" }

  var name: RotatedName
  var form: Form
  var path: String

  /// All of a file's; nothing else in the directory is ever touched.
  static func all(besides file: String) -> [RotatedFile] {
    let directory = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "./"
    let prefix = file.dropFirst(directory == "./" ? 0 : directory.count) + "."
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    return names.compactMap { entry in
      guard entry.hasPrefix(prefix) else { return nil }
      let rest = entry.dropFirst(prefix.count)
      let moment = rest.prefix(27)
      guard let name = RotatedName(moment: String(moment)), let form = Form(rawValue: String(rest.dropFirst(27)))
      else { return nil }
      return RotatedFile(name: name, form: form, path: directory + entry)
    }
  }
}
