import BenchmarkSupport

extension BenchmarkTable {
  /// Puts the rows into `Documentation/CaptureCost.md`.
  func writeCaptureCost() throws {
    var table = MarkdownTable(["", "", "measured", "ratio", "target"])
    var last = ""
    for row in rows {
      let mark = row.pass.map { $0 ? " ✓" : " (missed)" } ?? ""
      let target = row.bar.map { "≤ \($0.short)\(row.ratio == nil ? " \(row.unit)" : "×")\(mark)" } ?? ""
      table.add([
        row.benchmark == last ? "" : row.benchmark, row.subject, "\(row.value.short) \(row.unit)",
        row.ratio.map { $0.short + "×" } ?? "", target,
      ])
      last = row.benchmark
    }
    try replaceTable(
      in: Self.repository.appending(path: "Documentation/CaptureCost.md"), by: "make bench-capture",
      with: "\n\(machineDescription).\n\n\(table.text)\n")
  }
}
