import StallDetection
import StallReport

extension Episode {
  /// The version of the detail file's form.
  static let detailVersion = "1.0"

  /// All that is known of the stall, as one JSON object with a newline.
  ///
  /// The call tree is a list of nodes that name their parent: `id` is the place in the list, from 0, and parents come first.
  func detail(for report: Report) -> [UInt8] { detailObject(for: report).terminated() }

  /// The same as the message that an agent takes: `{"detail":{"id":"…",…}}` with a newline.
  func detailMessage(for report: Report) -> [UInt8] {
    var message = JSONWriter()
    message.object("detail") {
      $0.member("id", id)
      $0.append(members: detailObject(for: report))
    }
    return message.terminated()
  }

  private func detailObject(for report: Report) -> JSONWriter {
    var object = JSONWriter()
    object.member("@timestamp", report.time.text)
    object.object("detail") { $0.member("schema", Self.detailVersion) }
    object.object("stall") {
      $0.member("id", id)
      $0.member("threshold_ms", milliseconds: report.thresholdNanoseconds)
      $0.member("duration_ms", milliseconds: report.durationNanoseconds)
      $0.member("cause", report.verdict.cause.rawValue)
      $0.member("culprit", report.culprit?.name)
      $0.member("fingerprint", report.fingerprint)
      $0.object("causes_ms") { causes in
        for cause in Cause.allCases {
          guard let weight = weight(of: cause) else { continue }
          causes.key(cause.rawValue)
          causes.value(milliseconds: weight)
        }
      }
    }
    object.object("loop", report.loop.writeIdentity)
    object.object("process") { $0.member("pid", report.origin.processID) }
    report.origin.writeService(to: &object)
    object.array("samples", summaries.map { $0.json(culprit: culprit(of: $0)) })
    object.array("tree", tree.nodes.enumerated().map { Self.json(of: $1, id: $0) })
    object.array("threads", (heaviest?.threads ?? []).map(\.json))
    return object
  }

  private static func json(of node: CallTree.Node, id: Int) -> JSONWriter {
    var object = JSONWriter()
    object.member("id", id)
    object.member("parent", node.parent)
    object.member("weight_ms", milliseconds: node.weight)
    object.append(members: node.frame.json)
    return object
  }
}

extension Episode.SampleSummary {
  fileprivate func json(culprit: String?) -> JSONWriter {
    var object = JSONWriter()
    object.member("after_ms", milliseconds: after)
    object.member("weight_ms", milliseconds: weight)
    object.member("cause", cause.rawValue)
    object.member("wait", wait)
    object.member("culprit", culprit)
    object.member("failure", failure?.rawValue)
    return object
  }
}
