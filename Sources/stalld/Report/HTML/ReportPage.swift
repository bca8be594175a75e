/// `stalld report --html`: one page that needs no network, and runs no script but its own.
struct ReportPage {
  /// By this a later run recognizes a page, and may replace it.
  static let mark = "<meta name=\"generator\" content=\"stalld report\">"

  private let picture: PageModel

  /// Makes the page of a summary; `details` has the call trees of stalls.
  init(_ summary: ReportSummary, details: DetailTrees? = nil) { picture = PageModel(summary, details: details) }

  /// The page, as UTF-8.
  ///
  /// At most some 5 MB, however many stalls there are.
  func html() -> [UInt8] {
    // The author of a name in a report cannot know the nonce, so the browser does not run a script in a name, even if escaping fails.
    let nonce = Self.nonce()
    let scripts = [
      PackageResources.model_js, PackageResources.timeline_js, PackageResources.histogram_js, PackageResources.flame_js,
      PackageResources.stall_js, PackageResources.ranking_js, PackageResources.page_js,
    ]
    var page = Array(Self.head(nonce).utf8)
    page += PackageResources.page_css
    page += Self.body.utf8
    page += "<script type=\"application/json\" id=\"data\">".utf8
    page += picture.json()
    page += "</script>\n<script nonce=\"\(nonce)\">\n(() => {\n'use strict';\n\(Self.onError)".utf8
    for script in scripts { page += script }
    page += "})();\n</script>\n</body>\n</html>\n".utf8
    return page
  }

  private static func nonce() -> String {
    var generator = SystemRandomNumberGenerator()
    return String(generator.next(), radix: 36) + String(generator.next(), radix: 36)
  }

  /// A page that cannot be drawn has a message instead.
  private static let onError = """
    addEventListener('error', event => {
      document.documentElement.dataset.state = 'failed';
      const note = document.getElementById('failure');
      note.textContent = `Cannot draw this page: ${event.message}`;
      note.hidden = false;
    });

    """

  private static func head(_ nonce: String) -> String {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    \(mark)
    <meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; \
    base-uri 'none'; form-action 'none'">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="referrer" content="no-referrer">
    <title>Stall report</title>
    <style nonce="\(nonce)">

    """
  }

  private static let body = """
    </style>
    </head>
    <body>
    <header class="page">
    <p class="brand">Stall report</p>
    <h1 id="headline">Stalls</h1>
    <p id="scope" class="quiet"></p>
    <p id="worst" class="worst"></p>
    <p id="unread" class="worst" role="note" hidden></p>
    <noscript><p>A script draws the charts of this page. Enable JavaScript to see them.</p></noscript>
    <p id="failure" role="alert" hidden></p>
    <dl id="tiles" class="tiles"></dl>
    </header>
    <nav class="filters" aria-label="Causes and other filters"><div id="chips"></div></nav>
    <main>
    <div class="pair">
    <section class="panel" aria-labelledby="timeline-title">
    <div class="head"><h2 id="timeline-title">Timeline</h2><span class="note" id="timeline-note"></span>
    <button type="button" class="plain" id="zoom-in" aria-label="Zoom in">+</button>
    <button type="button" class="plain" id="zoom-out" aria-label="Zoom out">−</button>
    <button type="button" class="plain" id="zoom-all">All</button></div>
    <div id="timeline" tabindex="0" role="application"></div>
    </section>
    <section class="panel" aria-labelledby="histogram-title">
    <div class="head"><h2 id="histogram-title">Durations</h2><span class="note">Stalls by duration</span></div>
    <div id="histogram"></div>
    </section>
    </div>
    <section class="panel" aria-labelledby="flame-title">
    <div class="head"><h2 id="flame-title">Flame graph</h2>
    <span class="note">Width is stalled time. <span class="key"><i class="own"></i>the service</span> \
    <span class="key"><i class="other"></i>libraries and runtime</span></span>
    <input type="search" id="search" class="search" placeholder="Search functions" aria-label="Search functions" autocomplete="off" spellcheck="false">
    <button type="button" class="plain" id="whole" aria-pressed="false" \
    title="Show the frames of run loops, thunks and the C library's start, and function names in full">All frames</button>
    <button type="button" class="plain" id="flame-reset">Reset zoom</button></div>
    <div id="flame" class="flame" role="group" aria-label="Flame graph. Arrows go from frame to frame, Enter zooms in, Escape shows all."></div>
    <div id="flame-status" class="flame-status" aria-live="polite"></div>
    </section>
    <section class="panel" aria-labelledby="ranking-title">
    <div class="head"><h2 id="ranking-title">Functions that stall most</h2><span class="note" id="ranking-note"></span></div>
    <table id="ranking"><thead><tr></tr></thead><tbody></tbody></table>
    <div class="actions"><button type="button" class="plain" id="more" hidden>Show more</button></div>
    </section>
    </main>
    <footer class="page"><div id="notes"></div><p>Report lines omit middle frames of deep stacks; the flame graph joins the rest. \
    Made by stalld report; all times are UTC.</p></footer>
    <dialog id="stall" aria-labelledby="stall-title"></dialog>

    """
}
