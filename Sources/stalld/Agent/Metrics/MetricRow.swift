/// A metric that the agent exposes: its name, its help text, and the source of its values.
struct MetricRow {
  /// A number as it is written; whole numbers of any size are exact.
  struct Number {
    let text: String

    init(_ whole: some BinaryInteger) { text = String(whole) }

    init(_ real: Double) { text = ExpositionText.text(real) }
  }

  /// One line of the text: labels and a number.
  struct Sample {
    var labels: [(StaticString, String)] = []
    var value: Number
    /// What a histogram's lines have behind the name.
    var suffix: StaticString = ""
  }

  let name: StaticString
  let kind: ExpositionText.Kind
  let help: StaticString
  /// Only for scrapes: node_exporter has a metric of the same name of its own process.
  var isOfProcess = false
  /// Nil if the agent does not have the metric for now.
  let samples: (AgentMetrics, MetricsSample) -> [Sample]?

  /// A metric with labels, or one that is not always there.
  init(
    _ name: StaticString, _ kind: ExpositionText.Kind, _ help: StaticString,
    samples: @escaping (AgentMetrics, MetricsSample) -> [Sample]?
  ) {
    (self.name, self.kind, self.help, self.samples) = (name, kind, help, samples)
  }

  /// A metric without labels.
  init(
    _ name: StaticString, _ kind: ExpositionText.Kind, _ help: StaticString, isOfProcess: Bool = false,
    value: @escaping (AgentMetrics, MetricsSample) -> Number
  ) {
    self.init(name, kind, help) { [Sample(value: value($0, $1))] }
    self.isOfProcess = isOfProcess
  }

  /// A metric of each output.
  static func ofOutputs(
    _ name: StaticString, _ kind: ExpositionText.Kind, _ help: StaticString,
    _ value: @escaping (MetricsSample.Output) -> Number
  ) -> MetricRow {
    MetricRow(name, kind, help) { _, sample in
      if sample.outputs.isEmpty { return nil }
      return sample.outputs.map { Sample(labels: [("output", $0.name)], value: value($0)) }
    }
  }

  /// A metric of what names frames.
  static func ofSymbols(
    _ name: StaticString, _ kind: ExpositionText.Kind, _ help: StaticString,
    _ value: @escaping (MetricsSample.SymbolCache) -> Number
  ) -> MetricRow {
    MetricRow(name, kind, help) { _, sample in sample.symbols.map { [Sample(value: value($0))] } }
  }

  /// A metric of the detail files.
  static func ofDetails(
    _ name: StaticString, _ help: StaticString, _ value: @escaping (DetailStore.Counters) -> UInt64
  ) -> MetricRow {
    MetricRow(name, .counter, help) { _, sample in sample.details.map { [Sample(value: Number(value($0)))] } }
  }

  /// A metric of what services report about themselves, by unit and user.
  static func ofClaims(
    _ name: StaticString, _ help: StaticString, _ value: @escaping (HostClaims.Counts) -> UInt64
  ) -> MetricRow {
    MetricRow(name, .counter, help) { metrics, _ in
      metrics.claims.counts.sorted { $0.key < $1.key }.map { client, counts in
        Sample(labels: labels(place: client.place, user: client.user), value: Number(value(counts)))
      }
    }
  }

  static func labels(place: String, user: UInt32?) -> [(StaticString, String)] {
    var labels: [(StaticString, String)] = []
    if !place.isEmpty { labels.append(("unit", place)) }
    if let user { labels.append(("user", String(user))) }
    return labels
  }
}
