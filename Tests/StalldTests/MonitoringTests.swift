import Foundation
import TestSupport
import Testing

/// What operators load into Prometheus and Grafana, and the configurations of shippers that are not run here.
struct MonitoringTests {
  private static let rules = Repository.file("Config/prometheus/stalld.rules.yml")
  private static let dashboard = Repository.file("Config/grafana/stalld.json")
  private static let promtool = Program.installed("promtool")

  @Test(
    "each alert fires in its case, and none fires for a healthy fleet",
    .enabled(if: promtool != nil, "promtool is missing (Debian: prometheus)"))
  func alerts() throws {
    let promtool = try #require(Self.promtool)
    let checked = try Program.run(promtool, ["check", "rules", Self.rules.path])
    #expect(checked.status == 0, "\(checked.output)\(checked.errors)")
    let file = Repository.file("Tests/Support/stalld.rules.test.yml")
    let judged = try Program.run(promtool, ["test", "rules", file.path])
    #expect(judged.status == 0, "\(judged.output)\(judged.errors)")
    // Each alert has a case in which it fires.
    let cases = try String(contentsOf: file, encoding: .utf8)
    for alert in try String(contentsOf: Self.rules, encoding: .utf8).matches(of: /- alert: (\w+)/) {
      #expect(
        cases.contains(try Regex(#"alertname: \#(alert.1)\s+exp_alerts:\s+- exp_labels"#)), "\(alert.1)")
    }
  }

  @Test(
    "the dashboard's queries of metrics are PromQL",
    .enabled(if: promtool != nil, "promtool is missing (Debian: prometheus)"))
  func dashboardQueries() throws {
    let queries = try Self.queries(of: "prometheus")
    #expect(queries.count >= 10)
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "rules.yml")
    // As rules, which promtool checks; with what Grafana puts in place of its variables.
    let rules = queries.enumerated().map { number, query in
      let plain = query.replacing("$__rate_interval", with: "5m").replacing("$__range", with: "1h")
        .replacing("$service", with: ".*")
      #expect(!plain.contains("$"), "\(query)")
      return "  - { record: query\(number), expr: '\(plain)' }\n"
    }
    try ("groups:\n- name: dashboard\n  rules:\n" + rules.joined()).write(to: file, atomically: true, encoding: .utf8)
    let checked = try Program.run(#require(Self.promtool), ["check", "rules", file.path])
    #expect(checked.status == 0, "\(checked.output)\(checked.errors)")
  }

  /// Names in quotes, as the agent's source has them.
  @Test(
    "rules and dashboard name metrics that the agent has",
    .enabled(if: FileManager.default.fileExists(atPath: metricsFolder), "the agent has no metrics yet"))
  func metricsExist() throws {
    var known: Set<String> = []
    for file in try FileManager.default.subpathsOfDirectory(atPath: Self.metricsFolder) where file.hasSuffix(".swift") {
      let text = try String(contentsOfFile: "\(Self.metricsFolder)/\(file)", encoding: .utf8)
      for name in text.matches(of: /"(stalld_\w+)"/) { known.insert(String(name.1)) }
    }
    let rules = try String(contentsOf: Self.rules, encoding: .utf8).split(separator: "\n").filter {
      !$0.contains("record:")
    }
    let used = (rules.map(String.init) + (try Self.queries(of: "prometheus"))).joined(separator: "\n")
    for name in used.matches(of: /(?:^|[^:\w])(stalld_\w+?)(?:_bucket)?\b/) {
      #expect(known.contains(String(name.1)), "\(name.1)")
    }
  }

  private static let metricsFolder = Repository.file("Sources/stalld/Agent/Metrics").path

  @Test("the dashboard is complete: panels, sources, variables")
  func dashboardIsWhole() throws {
    let board = try Self.board()
    let panels = try #require(board["panels"] as? [[String: Any]])
    let numbers = panels.compactMap { $0["id"] as? Int }
    #expect(numbers.count == panels.count && Set(numbers).count == panels.count)
    var taken: Set<[Int]> = []
    for panel in panels {
      let place = try #require(panel["gridPos"] as? [String: Int])
      let (x, y, width, height) = try (
        #require(place["x"]), #require(place["y"]), #require(place["w"]), #require(place["h"])
      )
      #expect(x + width <= 24, "\(panel["title"] ?? "")")
      for column in x..<(x + width) {
        for line in y..<(y + height) { #expect(taken.insert([column, line]).inserted, "panels overlap") }
      }
    }
    #expect(try Self.queries(of: "loki").count >= 4)
  }

  /// They have no program here that would read them; this much is known without.
  @Test(
    "configurations of shippers that are not run are marked, and read the one file with space for the longest line",
    arguments: [
      ("fluent-bit/stalld.yaml", "buffer_max_size: 64k"), ("vector/stalld.yaml", "max_line_bytes: 102400"),
      ("otel-collector/stalld.yaml", "max_log_size: 64KiB"), ("alloy/stalld.alloy", "256 KB"),
      ("filebeat/filebeat.yml", "length: 256"),
    ])
  func shippersThatAreNotRun(file: String, limit: String) throws {
    let url = Repository.file("Config/\(file)")
    let text = try String(contentsOf: url, encoding: .utf8)
    #expect(text.split(separator: "\n").prefix(3).joined().contains("Not run in CI"))
    #expect(
      text.contains("/var/log/stalld/stalls.jsonl") && !text.contains("stalls.jsonl*") && !text.contains("*.jsonl"))
    #expect(text.contains(limit))
    guard file.hasSuffix("ml") else { return }
    let parsed = try Program.run(
      "/usr/bin/python3", ["-c", "import sys, yaml; yaml.safe_load(open(sys.argv[1]))", url.path])
    #expect(parsed.status == 0, "\(parsed.errors)")
  }

  private static func board() throws -> [String: Any] {
    try #require(JSONSerialization.jsonObject(with: Data(contentsOf: dashboard)) as? [String: Any])
  }

  private static func queries(of source: String) throws -> [String] {
    let panels = try #require(board()["panels"] as? [[String: Any]])
    return panels.flatMap { panel in
      (panel["targets"] as? [[String: Any]] ?? []).filter { ($0["datasource"] as? [String: String])?["type"] == source }
        .compactMap { $0["expr"] as? String }
    }
  }
}
