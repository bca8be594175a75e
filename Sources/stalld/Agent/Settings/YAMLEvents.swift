import CYAML

/// libyaml's events of a text, one after the other.
struct YAMLEvents: ~Copyable {
  private let bytes: UnsafeMutableBufferPointer<UInt8>
  // libyaml keeps the parser's address.
  private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
  private var event = yaml_event_t()

  init(_ bytes: [UInt8]) {
    self.bytes = .allocate(capacity: bytes.count)
    _ = self.bytes.initialize(from: bytes)
    parser.initialize(to: yaml_parser_t())
    // It fails without memory alone; then `take` fails as well.
    if yaml_parser_initialize(parser) == 1 { yaml_parser_set_input_string(parser, self.bytes.baseAddress, bytes.count) }
  }

  deinit {
    var last = event
    yaml_event_delete(&last)
    yaml_parser_delete(parser)
    parser.deallocate()
    bytes.deallocate()
  }

  /// The line of the current event, counted from 1.
  var line: Int { event.start_mark.line + 1 }

  /// Moves to the next event.
  mutating func take() throws(YAMLDocument.Fault) -> yaml_event_type_t {
    yaml_event_delete(&event)
    event = yaml_event_t()
    guard yaml_parser_parse(parser, &event) == 1 else { throw fault }
    return event.type
  }

  mutating func expect(_ kind: yaml_event_type_t) throws(YAMLDocument.Fault) {
    guard try take() == kind else { throw YAMLDocument.Fault(line: line, reason: "not a YAML document") }
  }

  var scalar: (text: String, isPlain: Bool) {
    let scalar = event.data.scalar
    let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
    return (text, scalar.style == YAML_PLAIN_SCALAR_STYLE)
  }

  var hasAnchor: Bool {
    switch event.type {
    case YAML_ALIAS_EVENT: true
    case YAML_SCALAR_EVENT: event.data.scalar.anchor != nil
    case YAML_SEQUENCE_START_EVENT: event.data.sequence_start.anchor != nil
    case YAML_MAPPING_START_EVENT: event.data.mapping_start.anchor != nil
    default: false
    }
  }

  var hasTag: Bool {
    switch event.type {
    case YAML_SCALAR_EVENT: event.data.scalar.tag != nil
    case YAML_SEQUENCE_START_EVENT: event.data.sequence_start.tag != nil
    case YAML_MAPPING_START_EVENT: event.data.mapping_start.tag != nil
    default: false
    }
  }

  private var fault: YAMLDocument.Fault {
    let problem = parser.pointee.problem.map { String(cString: $0) } ?? "no memory"
    if parser.pointee.error == YAML_READER_ERROR {
      let line = bytes.prefix(parser.pointee.problem_offset).count { $0 == 0x0a } + 1
      return YAMLDocument.Fault(line: line, reason: "not YAML: \(problem); UTF-8 text is needed")
    }
    // Where something is missing at the end, the mark is behind the last line.
    let lines = bytes.dropLast().count { $0 == 0x0a } + 1
    let line = min(parser.pointee.problem_mark.line + 1, lines)
    if hasTab(line) { return YAMLDocument.Fault(line: line, reason: "a tab; indent YAML with spaces") }
    let context = parser.pointee.context.map { text in
      " \(String(cString: text)) that begins in line \(parser.pointee.context_mark.line + 1)"
    }
    return YAMLDocument.Fault(line: line, reason: "not YAML: \(problem)\(context ?? "")")
  }

  /// Whether a tab is before the first character of the line, which libyaml does not accept.
  private func hasTab(_ line: Int) -> Bool {
    let text = bytes.split(separator: 0x0a, maxSplits: line, omittingEmptySubsequences: false)
    guard text.count >= line else { return false }
    return text[line - 1].prefix { $0 == 0x20 || $0 == 0x09 }.contains(0x09)
  }
}
