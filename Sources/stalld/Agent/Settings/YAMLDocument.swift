import CYAML

/// A YAML document as it was written: nothing is resolved, each value is text and knows its line.
///
/// A configuration needs no more of YAML than mappings, sequences and scalars. Anchors, aliases, tags and further documents are
/// faults, so no document is larger than its file.
struct YAMLDocument {
  struct Node {
    indirect enum Content {
      /// `isPlain`: without quotes.
      case scalar(String, isPlain: Bool)
      case sequence([Node])
      case mapping([(key: String, line: Int, value: Node)])
      /// Its fault was already reported.
      case unusable
    }
    var content: Content
    /// Counted from 1.
    var line: Int

    /// The value is empty, or YAML's null.
    var isNull: Bool {
      guard case .scalar(let text, isPlain: true) = content else { return false }
      return ["", "~", "null", "Null", "NULL"].contains(text)
    }
  }

  struct Fault: Error, Equatable {
    var line: Int
    var reason: String
  }

  private(set) var root: Node?
  private(set) var faults: [Fault] = []

  static let depthLimit = 16

  /// Reads a text; what is wrong with it is in `faults`, and then the root may lack parts.
  init(_ bytes: [UInt8]) {
    var events = YAMLEvents(bytes)
    do throws(Fault) {
      if bytes.starts(with: #"{"@timestamp""#.utf8) {
        throw Fault(line: 1, reason: "a report line; give a file of settings, such as /etc/stalld/stalld.yaml")
      }
      try events.expect(YAML_STREAM_START_EVENT)
      if try events.take() == YAML_STREAM_END_EVENT { return }
      root = try node(&events, try events.take(), depth: 0)
      try events.expect(YAML_DOCUMENT_END_EVENT)
      if try events.take() != YAML_STREAM_END_EVENT {
        faults.append(Fault(line: events.line, reason: "a second document; only one is allowed"))
      }
    } catch {
      faults.append(error)
      root = nil
    }
  }

  private mutating func node(
    _ events: inout YAMLEvents, _ kind: yaml_event_type_t, depth: Int
  ) throws(Fault) -> Node {
    let line = events.line
    guard depth < Self.depthLimit else {
      throw Fault(line: line, reason: "nested deeper than \(Self.depthLimit) levels")
    }
    if events.hasAnchor {
      faults.append(
        Fault(line: line, reason: "anchors and aliases (&name, *name) are not supported; repeat the value"))
    }
    if events.hasTag {
      faults.append(Fault(line: line, reason: "tags (!name) are not supported; write the value alone"))
    }
    switch kind {
    case YAML_SCALAR_EVENT:
      let (text, isPlain) = events.scalar
      return Node(content: .scalar(text, isPlain: isPlain), line: line)
    case YAML_SEQUENCE_START_EVENT:
      var elements: [Node] = []
      while case let kind = try events.take(), kind != YAML_SEQUENCE_END_EVENT {
        elements.append(try node(&events, kind, depth: depth + 1))
      }
      return Node(content: .sequence(elements), line: line)
    case YAML_MAPPING_START_EVENT:
      var entries: [(key: String, line: Int, value: Node)] = []
      while case let kind = try events.take(), kind != YAML_MAPPING_END_EVENT {
        let key = try node(&events, kind, depth: depth + 1)
        let value = try node(&events, try events.take(), depth: depth + 1)
        if case .scalar(let text, _) = key.content {
          entries.append((text, key.line, value))
        } else {
          faults.append(Fault(line: key.line, reason: "a key must be a word"))
        }
      }
      return Node(content: .mapping(entries), line: line)
    default:
      // An alias; the anchor was reported above.
      return Node(content: .unusable, line: line)
    }
  }
}
