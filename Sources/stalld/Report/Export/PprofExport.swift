/// A profile as `pprof` reads it (profile.proto, gzip): two values for each stack, `stalls/count` and `stall/nanoseconds`, with the labels
/// `service`, `host` and `cause`.
///
/// A mapping is a module of a build; the modules' addresses are put next to each other, for a report knows them only within their module.
struct PprofExport {
  private let summary: ReportSummary
  private var profile = ProtobufWriter()
  private var strings: [String] = []
  private var stringNumbers: [String: Int] = [:]
  private var mappings: [Module: Int] = [:]
  private var mappingFacts: [(module: Module, limit: UInt64, isNamed: Bool, hasLines: Bool, hasInlined: Bool)] = []
  private var functions: [Function: Int] = [:]
  private var locations: [[ReportFrame]: Int] = [:]
  private var stacks: [UInt32: [Int]] = [:]

  private struct Module: Hashable {
    var path: UInt32
    var buildID: UInt32
  }

  private struct Function: Hashable {
    var symbol: UInt32
    var file: UInt32
  }

  /// How far the modules' first addresses are apart.
  private static let modulePitch: UInt64 = 1 << 40

  init(_ summary: ReportSummary) { self.summary = summary }

  /// The file's bytes; not compressed, which readers take too, if there is no memory for that.
  func bytes() -> [UInt8] {
    var copy = self
    copy.write()
    return Gzip.compress(copy.profile.bytes) ?? copy.profile.bytes
  }

  private mutating func write() {
    let values = [("stalls", "count"), ("stall", "nanoseconds")].map { (number(of: $0.0), number(of: $0.1)) }
    for (type, unit) in values {
      profile.message(1) {
        $0.number(1, type)
        $0.number(2, unit)
      }
    }
    registerMainModule()
    let keys = ["service", "host", "cause"].map { number(of: $0) }
    for (share, sum) in StackShare.all(of: summary, perHost: true) {
      let locations = locations(of: share)
      let texts = [summary.text(share.service), summary.text(share.host), summary.cause(share.cause)].map {
        number(of: $0)
      }
      profile.message(2) { sample in
        sample.packed(1, locations)
        sample.packed(2, [sum.count, Int(clamping: sum.milliseconds * 1e6)])
        for (key, text) in zip(keys, texts) where text != 0 {
          sample.message(3) {
            $0.number(1, key)
            $0.number(2, text)
          }
        }
      }
    }
    writeMappings()
    let starts = summary.stalls.lazy.map(\.start)
    let (first, last) = (starts.min() ?? 0, summary.stalls.lazy.map(\.end).max() ?? 0)
    profile.number(9, Int(clamping: first * 1e9))
    profile.number(10, Int(clamping: (last - first) * 1e9))
    profile.number(14, number(of: "stall"))
    for text in strings { profile.text(6, text) }
  }

  /// The number of a text; 0 is the empty one, as the format wants it.
  private mutating func number(of text: String) -> Int {
    if strings.isEmpty {
      strings = [""]
      stringNumbers[""] = 0
    }
    if let number = stringNumbers[text] { return number }
    stringNumbers[text] = strings.count
    strings.append(text)
    return strings.count - 1
  }

  /// A stack's locations, the innermost first.
  ///
  /// A location is a call with what was inlined into it.
  private mutating func locations(of share: StackShare) -> [Int] {
    // pprof passes over samples without a place.
    guard let stack = share.stack else { return [location(of: [ReportFrame()])] }
    if let known = stacks[stack] { return known }
    var numbers: [Int] = []
    var call: [ReportFrame] = []
    for frame in share.frames(summary) {
      call.append(frame)
      if frame.isInlined { continue }
      numbers.append(location(of: call))
      call = []
    }
    if !call.isEmpty { numbers.append(location(of: call)) }
    stacks[stack] = numbers
    return numbers
  }

  private mutating func location(of call: [ReportFrame]) -> Int {
    if let known = locations[call] { return known }
    let number = locations.count + 1
    locations[call] = number
    let outer = call[call.count - 1]
    let mapping = mapping(of: outer, hasInlined: call.count > 1)
    // A frame without a name is a place in its module, which a symbolizer may still name.
    let lines = call.filter { $0.symbol != 0 || $0 == ReportFrame() }.map { (function(of: $0), Int($0.line)) }
    profile.message(4) { location in
      location.number(1, number)
      location.number(2, mapping)
      if let offset = outer.offset, mapping != 0 {
        location.number(3, Self.start(of: mapping) &+ offset % Self.modulePitch)
      }
      for (function, line) in lines {
        location.message(4) {
          $0.number(1, function)
          $0.number(2, line)
        }
      }
    }
    return number
  }

  private mutating func function(of frame: ReportFrame) -> Int {
    let key = Function(symbol: frame.symbol, file: frame.file)
    if let known = functions[key] { return known }
    let number = functions.count + 1
    functions[key] = number
    let (name, file) = (
      self.number(of: frame == ReportFrame() ? "(no stack)" : summary.text(frame.symbol)),
      self.number(of: summary.text(frame.file))
    )
    profile.message(5) {
      $0.number(1, number)
      $0.number(2, name)
      // No system name: pprof would shorten a name that it takes for a mangled one.
      $0.number(4, file)
    }
    return number
  }

  /// The number of a frame's module; 0 if it is not known.
  private mutating func mapping(of frame: ReportFrame, hasInlined: Bool) -> Int {
    guard frame.module != 0 || frame.buildID != 0 else { return 0 }
    let module = Module(path: frame.module, buildID: frame.buildID)
    let number = mappings[module, default: mappings.count + 1]
    if mappings.updateValue(number, forKey: module) == nil {
      mappingFacts.append((module, 0, true, false, false))
    }
    let offset = (frame.offset ?? 0) % Self.modulePitch
    mappingFacts[number - 1].limit = max(mappingFacts[number - 1].limit, (offset | 0xfff) + 1)
    if frame.symbol == 0 { mappingFacts[number - 1].isNamed = false }
    if frame.line != 0 { mappingFacts[number - 1].hasLines = true }
    if hasInlined { mappingFacts[number - 1].hasInlined = true }
    return number
  }

  /// Readers take the first mapping for the program that was profiled: the module of the service's own code in the heaviest stack.
  private mutating func registerMainModule() {
    guard let heaviest = summary.stacks.first else { return }
    let own = summary.frames(of: heaviest).first {
      !$0.isInlined && FrameColor.isOwn(symbol: summary.text($0.symbol), module: summary.text($0.module))
    }
    if let own { _ = mapping(of: own, hasInlined: false) }
  }

  private static func start(of mapping: Int) -> UInt64 { UInt64(mapping) * modulePitch }

  private mutating func writeMappings() {
    for (index, facts) in mappingFacts.enumerated() {
      let (path, buildID) = (
        number(of: summary.text(facts.module.path)), number(of: summary.text(facts.module.buildID))
      )
      let start = Self.start(of: index + 1)
      profile.message(3) {
        $0.number(1, index + 1)
        $0.number(2, start)
        $0.number(3, start + facts.limit)
        $0.number(5, path)
        $0.number(6, buildID)
        $0.number(7, facts.isNamed ? 1 : 0)
        $0.number(8, facts.hasLines ? 1 : 0)
        $0.number(9, facts.hasLines ? 1 : 0)
        $0.number(10, facts.hasInlined ? 1 : 0)
      }
    }
  }
}
