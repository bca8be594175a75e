import StallReport

extension PageModel {
  /// What the page's script reads; model.js says what the rows are.
  func json() -> [UInt8] {
    var json = JSONWriter(escaping: .page)
    json.object { json in
      json.key("by")
      json.value(summary.grouping.rawValue)
      json.key("complete")
      json.value(isComplete)
      json.key("omittedStacks")
      json.value(stacks.omitted + summary.omittedStacks)
      json.key("omittedGroups")
      json.value(summary.groups.count - groups.count)
      json.key("totals")
      json.object(write(totals:))
      json.key("causes")
      json.array(summary.causes) { $0.value(String($1.prefix(40))) }
      json.key("texts")
      json.array(texts.all) { $0.value($1) }
      json.key("frames")
      json.array(stacks.frames) { $0.array($1) }
      json.key("stacks")
      json.array(stacks.stacks) { $0.array($1) }
      json.key("folds")
      json.array(stacks.folds) { json, folds in json.array(folds) { $0.array($1) } }
      json.key("weights")
      json.array(weights) { json, weight in
        json.array { json in
          json.value(weight.0.stack)
          json.value(weight.0.group)
          json.value(weight.0.cause)
          json.value(weight.1.milliseconds)
          json.value(weight.1.count)
        }
      }
      json.key("groups")
      let names = ShortNames(summary)
      json.array(groups) { json, group in json.object { write(&$0, group.group, names, stack: group.stack) } }
      json.key("stalls")
      json.array(rows) { json, row in row.write(into: &json) }
      json.key("bins")
      json.object(write(bins:))
      json.key("histogram")
      json.array(histogram.sorted { ($0.key.bin, $0.key.cause) < ($1.key.bin, $1.key.cause) }) { json, cell in
        json.array([cell.key.bin, Int(cell.key.cause), cell.value])
      }
      json.key("trees")
      json.object(write(trees:))
    }
    return json.bytes
  }

  private func write(trees json: inout JSONWriter) {
    for tree in trees {
      json.key(tree.id)
      json.array(tree.nodes) { json, node in
        json.array { json in
          json.value(node.parent)
          json.value(node.frame)
          json.value(node.milliseconds)
          json.value(node.origin)
        }
      }
    }
  }

  private func write(totals json: inout JSONWriter) {
    let counts = [
      ("stalls", total.count), ("suppressed", suppressed), ("fatal", fatal), ("services", services), ("hosts", hosts),
      ("lines", summary.lines), ("skipped", summary.skipped.count), ("unread", summary.unreadable.count),
    ]
    for (name, count) in counts {
      json.key(name)
      json.value(count)
    }
    let numbers: [(String, Double?)] = [
      ("ms", total.milliseconds), ("first", first), ("last", last), ("longest", longest), ("p50", percentiles?.p50),
      ("p99", percentiles?.p99), ("since", summary.since),
    ]
    for (name, number) in numbers {
      json.key(name)
      json.value(number)
    }
  }

  private func write(_ json: inout JSONWriter, _ group: StallGroup, _ names: ShortNames, stack: Int) {
    for column in GroupColumn.all {
      guard let name = column.pageName else { continue }
      json.key(name)
      switch column.content {
      case .name(let path, _), .text(let path):
        let text = group[keyPath: path]
        json.value(text.unicodeScalars.count > PageTexts.longest ? String(text.prefix(PageTexts.longest)) + "…" : text)
      case .count(let path): json.value(group[keyPath: path])
      case .milliseconds(let value): json.value(value(group))
      case .time(let path): json.value(group[keyPath: path])
      }
    }
    if summary.grouping == .culprit {
      json.key("short")
      json.value(String(names[group.key].prefix(PageTexts.longest)))
    }
    json.key("stack")
    json.value(stack)
  }

  private func write(bins json: inout JSONWriter) {
    json.key("width")
    json.value(max(binWidth, 0.001))
    json.key("cells")
    json.array(bins.sorted { ($0.key.bin, $0.key.cause) < ($1.key.bin, $1.key.cause) }) { json, cell in
      json.array { json in
        json.value(cell.key.bin)
        json.value(cell.key.cause)
        json.value(cell.value.milliseconds)
        json.value(cell.value.count)
      }
    }
  }
}
