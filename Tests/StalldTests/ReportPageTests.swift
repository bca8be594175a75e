import Foundation
import TestSupport
import Testing

@testable import stalld

/// `stalld report --html`, opened in a browser.
@Suite(.serialized, .takingTurns) struct ReportPageTests {
  let scratch: ScratchDirectory
  let browser: Chromium

  init() throws {
    scratch = try ScratchDirectory()
    browser = Chromium(scratch: scratch)
  }

  private func page(_ lines: ReportLines, _ arguments: [String] = []) throws -> String {
    try SymbolicateTests.validate(lines.text, in: scratch)
    let file = scratch.url.appending(path: "report.html").path
    let run = try Program.run(
      Program.built("stalld", "debug").path, ["report", "--html", file] + arguments + [lines.file(in: scratch)])
    #expect(run.status == 0, "\(run.errors)")
    return try String(contentsOfFile: file, encoding: .utf8)
  }

  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func drawsEachStallAndGroupAndFrame() throws {
    let lines = ReportLines(300, hosts: 7)
    let document = try browser.document(
      of: page(lines),
      running: """
        const count = selector => document.querySelectorAll(selector).length;
        return JSON.stringify({ marks: count('.mark'), groups: count('tr.group'), bars: count('.bar-of-durations'), bins: count('.bin'),
          frames: [...document.querySelectorAll('#flame button')].map(button => button.textContent), headline: document.getElementById('headline').textContent,
          tiles: document.getElementById('tiles').textContent, overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth })
        """)
    #expect(document.state == "ready")
    let drawn = try #require(try JSONSerialization.jsonObject(with: Data(document.result.utf8)) as? [String: Any])
    #expect(drawn["marks"] as? Int == 300)
    #expect(drawn["groups"] as? Int == 3)
    #expect(drawn["bars"] as? Int ?? 0 > 3)
    #expect(drawn["bins"] as? Int ?? 0 > 30)
    let frames = try #require(drawn["frames"] as? [String])
    // Two services have a main of their own each.
    #expect(frames.filter { $0 == "main" }.count == 2)
    #expect(
      Set(frames).isSuperset(of: ["all stalls", "read()", "___pthread_mutex_lock", "rebuild()"])
    )
    #expect((drawn["headline"] as? String)?.contains("300 stalls") == true)
    #expect((drawn["tiles"] as? String)?.contains("Hosts7") == true)
    #expect(drawn["overflow"] as? Int == 0)
  }

  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func searchesZoomsFiltersSortsAndOpensAStall() throws {
    let document = try browser.document(
      of: page(ReportLines(90, hosts: 3)),
      running: """
        const at = id => document.getElementById(id), all = selector => [...document.querySelectorAll(selector)];
        const result = {};
        at('search').value = 'store.WRITE';
        at('search').dispatchEvent(new Event('input'));
        result.matches = all('#flame .match').map(button => button.textContent);
        result.matched = at('matched').textContent;
        all('#flame button').find(button => button.textContent === 'write()').click();
        result.zoomed = at('flame-status').textContent;
        result.width = all('#flame button').find(button => button.textContent === 'fsync').style.width;
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        result.back = all('#flame button').some(button => button.textContent === 'rebuild()');
        all('th button').find(button => button.textContent === 'Stalls').click();
        result.sorted = all('th[aria-sort]').map(head => head.textContent + head.getAttribute('aria-sort'));
        all('.chip').find(chip => chip.textContent.startsWith('io')).click();
        result.causes = [...new Set(all('.mark').map(mark => mark.getAttribute('class')))];
        result.groups = all('tr.group').length;
        at('timeline').focus();
        for (const key of ['ArrowRight', 'Enter']) at('timeline').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        result.open = at('stall').open;
        result.stall = at('stall').textContent;
        result.stack = all('#stall .stack li').length;
        at('stall').close();
        at('timeline').dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));
        result.nearer = all('.mark').length;
        at('zoom-all').click();
        result.whole = all('.mark').length;
        return JSON.stringify(result);
        """)
    #expect(document.state == "ready")
    let result = try #require(
      try JSONSerialization.jsonObject(with: Data(document.result.utf8)) as? [String: Any], "\(document.result)")
    #expect(result["matches"] as? [String] == ["write()"])
    #expect(try #require(result["matched"] as? String).contains(/: [\d.]+ s, \d+ % of the time/))
    #expect(try #require(result["zoomed"] as? String).hasPrefix("Store.write() throws -> () – "))
    #expect(result["width"] as? String == "100%")
    #expect(result["back"] as? Bool == true)
    #expect(result["sorted"] as? [String] == ["Stallsdescending"])
    #expect(result["causes"] as? [String] == ["mark c-io"])
    #expect(result["groups"] as? Int == 1)
    #expect(result["open"] as? Bool == true)
    #expect(try #require(result["stall"] as? String).contains("web"))
    #expect(result["stack"] as? Int == 3)
    #expect(try #require(result["nearer"] as? Int) < 30)
    #expect(result["whole"] as? Int == 30)
  }

  /// Whatever a name is, it is text.
  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func runsNothingThatANameSays() throws {
    let names = [
      "</script><script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">",
      "' onclick='document.title=1' x='",
      "\u{2028}document.title='taken'\u{2029}", "<!--<script>", "\\u003c/script>",
      "{{constructor.constructor('document.title=1')()}}", "__proto__",
    ]
    var lines = ReportLines()
    for name in names {
      lines.add(.init(service: name, cause: "lock", functions: [name + ".call()", "main"]), host: name)
    }
    let page = try page(lines)
    #expect(!page.contains("<img"))
    #expect(page.matches(of: /<script/).count == 2, "the data and the page's own script")
    let document = try browser.document(
      of: page,
      running: """
        document.querySelectorAll('.name').forEach(button => document.querySelector(`.name[aria-expanded="false"]`)?.click());
        document.querySelectorAll('.mark').forEach(mark => { mark.dispatchEvent(new MouseEvent('click', { bubbles: true })); document.getElementById('stall').close(); });
        await new Promise(done => setTimeout(done, 200));
        return JSON.stringify({ images: document.images.length, scripts: document.scripts.length, handlers: document.querySelectorAll('[onclick], [onerror]').length,
          names: [...document.querySelectorAll('.name')].map(name => name.textContent) });
        """)
    #expect(document.state == "ready")
    #expect(document.title == "Stall report")
    let result = try #require(
      try JSONSerialization.jsonObject(with: Data(document.result.utf8)) as? [String: Any], "\(document.result)")
    #expect(result["images"] as? Int == 0)
    #expect(result["scripts"] as? Int == 3, "the data, the page's own, and this test's")
    #expect(result["handlers"] as? Int == 0)
    #expect(Set(try #require(result["names"] as? [String])) == Set(names.map { $0 + ".call()" }))
  }

  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func fitsAPhone() throws {
    var lines = ReportLines(60, hosts: 3)
    lines.add(
      .init(
        service: "web", cause: "lock",
        functions: ["Store." + String(repeating: "veryLongName", count: 30) + "()", "main"]), milliseconds: 90_000)
    let document = try browser.document(
      of: page(lines),
      running: """
        document.querySelectorAll('.name').forEach((_, number) => document.querySelectorAll('.name')[number].click());
        document.querySelector('.longest button').click();
        return [innerWidth, document.documentElement.scrollWidth <= document.documentElement.clientWidth, document.getElementById('stall').getBoundingClientRect().width <= innerWidth].join(' ');
        """,
      width: 390)
    #expect(document.state == "ready")
    #expect(document.result == "390 true true")
  }

  /// A click shows the frames of a line that folds; a button shows all of them, and whole names.
  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func foldsTheFramesOfTheLoop() throws {
    var lines = ReportLines()
    let loop = ["fire", "pass", "run"].map { "LoopEngine.Loop.\($0)(LoopEngine.ModeState) -> ()" }
    let kind = ReportLines.Kind(
      service: "web", cause: "io", functions: ["fsync", "web.Store.save() -> ()"] + loop + ["main"])
    let id = lines.add(kind)
    var tree = ["main", loop[2], loop[1], loop[0], "web.Store.save() -> ()"].enumerated().map { place, symbol in
      #"{"id":\#(place),\#(place > 0 ? "\"parent\":\(place - 1)," : "")"weight_ms":400.000,"symbol":"\#(symbol)"}"#
    }
    tree = [#"{"stall":{"id":"\#(id)"},"tree":[\#(tree.joined(separator: ","))]}"#]
    try Data(tree[0].utf8).write(to: scratch.url.appending(path: "\(id).json"))
    let document = try browser.document(
      of: page(lines, ["--details", scratch.url.path]),
      running: """
        const all = selector => [...document.querySelectorAll(selector)];
        const texts = selector => all(selector).map(it => it.textContent);
        const result = {};
        result.flame = texts('#flame button');
        result.group = texts('.name');
        result.title = document.querySelector('.name span').title;
        document.querySelector('.name').click();
        result.stack = texts('tr.more .stack li').map(line => line.trim().split('  ')[0]);
        document.querySelector('tr.more .folded button').click();
        result.unfolded = all('tr.more .stack li').length;
        document.querySelector('.mark').dispatchEvent(new MouseEvent('click', { bubbles: true }));
        result.tree = texts('#stall .tree li').length;
        document.querySelector('#stall .tree .folded button').click();
        result.wholeTree = texts('#stall .tree li').length;
        document.getElementById('stall').close();
        document.getElementById('whole').click();
        result.all = texts('#flame button');
        result.pressed = document.getElementById('whole').getAttribute('aria-pressed');
        result.name = texts('.name');
        return JSON.stringify(result);
        """)
    #expect(document.state == "ready")
    let result = try #require(
      try JSONSerialization.jsonObject(with: Data(document.result.utf8)) as? [String: Any], "\(document.result)")
    #expect(result["flame"] as? [String] == ["all stalls", "main", "frames of LoopEngine", "Store.save()", "fsync"])
    #expect(result["group"] as? [String] == ["Store.save()"])
    #expect(result["title"] as? String == "web.Store.save() -> ()")
    #expect(result["stack"] as? [String] == ["fsync", "Store.save()", "3 frames of LoopEngine", "main"])
    #expect(result["unfolded"] as? Int == 6)
    #expect(result["tree"] as? Int == 3)
    #expect(result["wholeTree"] as? Int == 5)
    #expect(
      result["all"] as? [String] == ["all stalls", "main"] + loop.reversed() + ["web.Store.save() -> ()", "fsync"])
    #expect(result["pressed"] as? String == "true")
    #expect(result["name"] as? [String] == ["web.Store.save() -> ()"])
  }

  /// The tree of a stall's detail file is shown with it; what is no such file is passed over.
  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func showsTheCallTreeOfADetailFile() throws {
    var lines = ReportLines()
    let id = lines.add(ReportLines.kinds[0])
    let other = lines.add(ReportLines.kinds[1])
    let tree = """
      {"stall":{"id":"\(id)"},"tree":[{"id":0,"weight_ms":400.000,"symbol":"main"},{"id":1,"parent":0,"weight_ms":300.000,"symbol":"Store.read() -> ()"},\
      {"id":2,"parent":0,"weight_ms":100.000,"symbol":"Store.touch() -> ()"}]}
      """
    try Data(tree.utf8).write(to: scratch.url.appending(path: "\(id).json"))
    try Data("{\"stall\":{\"id\":\"\(other)\"},\"tree\":[{\"parent\":7,\"weight_ms\":1,\"symbol\":\"main\"}]}".utf8)
      .write(
        to: scratch.url.appending(path: "\(other).json"))
    let document = try browser.document(
      of: page(lines, ["--details", scratch.url.path]),
      running: """
        return [...document.querySelectorAll('.mark')].map(mark => {
          mark.dispatchEvent(new MouseEvent('click', { bubbles: true }));
          const words = document.querySelector('#stall .tree')?.innerText ?? 'no tree';
          document.getElementById('stall').close();
          return words;
        }).join('|');
        """)
    #expect(document.state == "ready")
    #expect(document.result.contains("300 ms 75 %"))
    #expect(document.result.contains("touch()"))
    #expect(document.result.hasSuffix("|no tree"))
  }

  /// Beyond some thousands the longest have marks, and the sums count all.
  @Test(.enabled(if: Chromium.path != nil, Chromium.absence))
  func countsAllOfManyStallsAndMarksTheLongest() throws {
    var pass = ReportPass()
    let lines = ReportLines(5000, hosts: 9)
    read(lines.text, into: &pass)
    let html = ReportPage(ReportSummary(pass, grouping: .culprit)).html()
    let document = try browser.document(
      of: String(decoding: html, as: UTF8.self),
      running: """
        const shortest = Math.min(...[...document.querySelectorAll('.mark')].map(mark => mark.stall[1]));
        return [document.querySelectorAll('.mark').length, document.getElementById('headline').textContent, shortest > 400,
          document.getElementById('timeline-note').textContent.includes('4,000 longest of 5,000')].join('|');
        """)
    #expect(document.state == "ready")
    #expect(document.result.hasPrefix("4000|5,000 stalls: "))
    #expect(document.result.hasSuffix("|true|true"))
  }

  /// Names that differ in each line, and are as long as a line takes, do not make a page without bounds.
  @Test func isBoundedWithAnyNames() throws {
    var pass = ReportPass()
    for number in 0..<1500 {
      var lines = ReportLines()
      let name = "\(number)" + String(repeating: "<", count: 800)
      lines.add(.init(service: name, cause: "lock", functions: (0..<4).map { "\($0)" + name }), host: name)
      read(lines.text.replacingOccurrences(of: "10000000\"", with: String(format: "%08x\"", number)), into: &pass)
    }
    let summary = ReportSummary(pass, grouping: .culprit)
    #expect(summary.stalls.count == 1500)
    let html = ReportPage(summary).html()
    #expect(html.count < 5_000_000)
    #expect(html.count > 1_000_000)
  }

  @Test func saysWhatItCannotWriteOrCombine() throws {
    let stalld = try Program.built("stalld", "debug").path
    let file = try ReportLines(3, hosts: 1).file(in: scratch)
    let nowhere = try Program.run(stalld, ["report", "--html", "/nowhere/report.html", file])
    #expect(nowhere.status == 1)
    #expect(nowhere.errors.contains("/nowhere/report.html: No such file or directory"))
    for (arguments, complaint) in [
      (["--html", "x.html", "--format", "csv"], "--html cannot be combined with --format csv"),
      (["--details", "/tmp"], "--details needs --html"),
      (["--diff", "--format", "pprof", file], "--diff supports --format table, json and csv, not pprof"),
    ] {
      let run = try Program.run(stalld, ["report"] + arguments + [file])
      #expect(run.status == 64)
      #expect(run.errors.contains(complaint), "\(run.errors)")
    }
  }

  private func read(_ text: String, into pass: inout ReportPass) {
    for (number, line) in text.split(separator: "\n").enumerated() {
      Array(line.utf8).withUnsafeBufferPointer { pass.read($0, file: "lines", fileIndex: 0, number: number + 1) }
    }
  }
}
