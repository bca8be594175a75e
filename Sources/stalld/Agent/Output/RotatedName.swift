import FoundationEssentials
import Glibc

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
    var seconds = time_t(microseconds / 1_000_000)
    var date = tm()
    gmtime_r(&seconds, &date)
    func padded(_ number: Int, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
    let day =
      "\(padded(Int(date.tm_year) + 1900, 4))-\(padded(Int(date.tm_mon) + 1, 2))-\(padded(Int(date.tm_mday), 2))"
    let clock = [date.tm_hour, date.tm_min, date.tm_sec].map { padded(Int($0), 2) }.joined(separator: "-")
    moment = "\(day)T\(clock).\(padded(microseconds % 1_000_000, 6))Z"
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
