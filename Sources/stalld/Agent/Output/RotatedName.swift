import DescriptorIO
import FoundationEssentials
import Glibc
import StallMonitor
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
    guard isMoment, Self.time(moment) != nil else { return nil }
    self.moment = moment
  }

  private init(_ time: Timestamp) {
    moment = time.text(fractionDigits: 6).replacing(":", with: "-")
  }

  static func < (one: RotatedName, other: RotatedName) -> Bool { one.moment < other.moment }

  func path(besides file: String) -> String { "\(file).\(moment)" }

  /// A name for now, which is newer than the newest existing one, also after the clock was set
  /// back.
  static func next(after newest: RotatedName?) -> RotatedName {
    let now = RotatedName(Timestamp.now())
    guard let newest, now <= newest, var time = time(newest.moment) else { return now }
    time.nanoseconds += 1000
    if time.nanoseconds >= 1_000_000_000 { (time.seconds, time.nanoseconds) = (time.seconds + 1, 0) }
    return RotatedName(time)
  }

  /// Nil if the text is no time, such as one in a 13th month.
  private static func time(_ moment: String) -> Timestamp? {
    let (day, second) = (String(moment.prefix(11)), String(moment.dropFirst(11)))
    return Timestamp(rfc3339: day + second.replacing("-", with: ":"), form: .report)
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
    let place = PathParts(file)
    let prefix = place.name + "."
    let names = (try? FileManager.default.contentsOfDirectory(atPath: place.directory)) ?? []
    return names.compactMap { entry in
      guard entry.hasPrefix(prefix) else { return nil }
      let rest = entry.dropFirst(prefix.count)
      let moment = rest.prefix(27)
      guard let name = RotatedName(moment: String(moment)), let form = Form(rawValue: String(rest.dropFirst(27)))
      else { return nil }
      return RotatedFile(name: name, form: form, path: file.dropLast(place.name.count) + entry)
    }
  }
}
