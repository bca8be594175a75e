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
    // There is none after the last moment of the year 9999.
    return RotatedName(moment: RotatedName(time).moment) ?? now
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
  enum Form: String, CaseIterable {
    case plain = ""
    case compressed = ".gz"
    /// Its name begins with a dot, so that no glob of reports matches it.
    case unfinished = ".gz.part"

    fileprivate var prefix: String { self == .unfinished ? "." : "" }
  }

  var name: RotatedName
  var form: Form
  var path: String

  /// All of a file's; nothing else in the directory is ever touched, and only regular files are.
  static func all(besides file: String) -> [RotatedFile] {
    let place = PathParts(file)
    let names = (try? FileManager.default.contentsOfDirectory(atPath: place.directory)) ?? []
    return names.compactMap { entry in
      guard let (name, form) = parts(of: entry, besides: place.name) else { return nil }
      let path: String = file.dropLast(place.name.count) + entry
      var status = stat()
      guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
      return RotatedFile(name: name, form: form, path: path)
    }
  }

  /// What a name in the directory of a file says; nil if the agent gives no file of that file's such a name.
  static func parts(of entry: String, besides file: String) -> (name: RotatedName, form: Form)? {
    for form in Form.allCases {
      let prefix = form.prefix + file + "."
      guard entry.hasPrefix(prefix), entry.hasSuffix(form.rawValue) else { continue }
      let moment = String(entry.dropFirst(prefix.count).dropLast(form.rawValue.count))
      if let name = RotatedName(moment: moment) { return (name, form) }
    }
    return nil
  }

  /// The path of a rotated file's archive until that is complete.
  static func unfinished(of plain: String) -> String {
    let name = PathParts(plain).name
    return plain.dropLast(name.count) + Form.unfinished.prefix + name + Form.unfinished.rawValue
  }
}
