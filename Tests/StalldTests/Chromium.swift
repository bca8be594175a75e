import Foundation
import TestSupport
import Testing

/// A headless Chromium that opens a page of `stalld report --html`, and what it makes of it.
struct Chromium {
  static let path = Program.installed("chromium")

  static let absence: Comment = "chromium is not installed: make test-pictures installs it"

  let scratch: ScratchDirectory

  /// The page's document, after its scripts have run, in a frame that is `width` points wide.
  ///
  /// `script` is run in the page after it has been drawn; what it returns is ``Document/result``. It may await.
  func document(of page: String, running script: String = "return ''", width: Int = 1200) throws -> Document {
    // The page's own policy runs no script but such as know its nonce.
    let nonce = try #require(page.firstMatch(of: /script nonce="([^"]+)"/)?.1)
    let probe = """
      <script nonce="\(nonce)">
      addEventListener('load', () => requestAnimationFrame(() => setTimeout(async () => {
        let result;
        try { result = await (async () => { \(script) })(); } catch (error) { result = `threw ${error}`; }
        const text = { state: document.documentElement.dataset.state, result: String(result), title: document.title,
          html: document.documentElement.outerHTML };
        parent.postMessage(JSON.stringify(text), '*');
      }, 50)));
      </script></body>
      """
    let name = UUID().uuidString.prefix(8)
    let inner = scratch.url.appending(path: "page-\(name).html")
    try page.replacingOccurrences(of: "</body>", with: probe).write(to: inner, atomically: true, encoding: .utf8)
    let outer = scratch.url.appending(path: "frame-\(name).html")
    try """
    <!DOCTYPE html><body style="margin:0"><iframe style="border:0;width:\(width)px;height:900px" src="\(inner.absoluteString)"></iframe>
    <script>
    addEventListener('message', event => {
      console.log('answer:' + btoa(unescape(encodeURIComponent(event.data))) + ':end');
    });
    </script>
    """.write(to: outer, atomically: true, encoding: .utf8)
    return try JSONDecoder().decode(Document.self, from: try answer(of: outer, profile: "profile-\(name)"))
  }

  /// What the page at `url` writes to its console, in base64, between `answer:` and `:end`.
  ///
  /// The browser's own ends of a run (a load, a budget of virtual time) can come before the page's frame is drawn.
  private func answer(of url: URL, profile: String) throws -> Data {
    let log = scratch.url.appending(path: "\(profile).log")
    try Data().write(to: log)
    let browser = try Program.start(
      try #require(Self.path),
      [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--proxy-server=127.0.0.1:9",
        "--user-data-dir=\(scratch.url.path)/\(profile)", "--window-size=1300,1000", "--enable-logging=stderr",
        url.absoluteString,
      ], errors: try FileHandle(forWritingTo: log))
    defer {
      browser.terminate()
      browser.waitUntilExit()
    }
    var text = ""
    try waitUntil("no answer from the page: \(text.suffix(800))", within: 120) {
      usleep(50_000)
      text = try String(contentsOf: log, encoding: .utf8)
      return text.contains(":end\"") || !browser.isRunning
    }
    let encoded = try #require(text.firstMatch(of: /"answer:([A-Za-z0-9+\/=]+):end"/)?.1, "\(text.suffix(800))")
    return try #require(Data(base64Encoded: String(encoded)))
  }

  struct Document: Decodable {
    /// `ready`, or `failed` if a script threw.
    var state: String?
    var result: String
    var title: String
    var html: String
  }
}
