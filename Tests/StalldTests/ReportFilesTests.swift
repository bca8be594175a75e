import DescriptorIO
import Foundation
import TestSupport
import Testing

@testable import stalld

/// The files that `stalld report` and its relatives read and write: none is lost, and none is missing in the numbers in silence.
@Suite(.serialized, .takingTurns) struct ReportFilesTests {
  let scratch: ScratchDirectory

  init() throws { scratch = try ScratchDirectory() }

  private func path(_ name: String) -> String { scratch.url.appending(path: name).path }

  private func put(_ text: String, in name: String) throws { try Data(text.utf8).write(to: URL(filePath: path(name))) }

  private func text(of name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

  /// Lines of so many stalls, with ids from a number on.
  private func lines(_ count: Int, from id: Int) -> String {
    (id..<id + count).map { ReportCommandTests.line(id: $0, ms: 100) + "\n" }.joined()
  }

  private func run(_ script: String) throws -> Program {
    try Program.run(
      "/bin/bash", ["-c", script], environment: ["stalld": Program.built("stalld", "debug").path], in: scratch.url,
      limit: 60)
  }

  // MARK: Outputs

  private func write(_ name: String, reading inputs: [String] = [], _ bytes: String = "new") -> String? {
    let output = OutputFile(path: path(name), inputs: InputFiles(inputs.map(path)))
    do throws(OutputFile.Failure) {
      try output.write(Array(bytes.utf8))
      return nil
    } catch {
      return error.description.replacing(scratch.path + "/", with: "")
    }
  }

  @Test func aPageReplacesAnEarlierPageAndNothingElse() throws {
    var pass = ReportPass()
    Array(ReportCommandTests.line(id: 1).utf8).withUnsafeBufferPointer {
      pass.read($0, file: "f", fileIndex: 0, number: 1)
    }
    let page = String(decoding: ReportPage(ReportSummary(pass, grouping: .culprit)).html(), as: UTF8.self)
    for (name, text, refusal) in [
      (
        "lines", lines(3, from: 1),
        "lines: is a file of report lines, which the page would replace; the name of the page"
      ),
      (
        "settings", "outputs: []\n",
        "settings: is a file of other text or data, and no page of stalld report; delete it"
      ),
      ("other.html", "<!DOCTYPE html>\n<title>x</title>", "other.html: is an HTML or XML file, and no page of"),
      ("profile.json", "{\"meta\":{}}", "profile.json: is a JSON file"), ("archive", "\u{1f}", "other text or data"),
    ] {
      try put(text, in: name)
      #expect(write(name)?.contains(refusal) == true, "\(write(name) ?? "written")")
      #expect(try self.text(of: name) == text)
    }
    try Data([0x1f, 0x8b, 8, 0]).write(to: URL(filePath: path("lines.gz")))
    #expect(write("lines.gz")?.contains("lines.gz: is a gzip file") == true)

    try put(page, in: "page")
    try put("", in: "empty")
    chmod(path("page"), 0o640)
    symlink("page", path("link"))
    symlink("nothing", path("dangling"))
    link(path("page"), path("hard"))
    for name in ["page", "empty", "absent", "dangling"] {
      #expect(write(name, page) == nil)
      #expect(try text(of: name) == page)
    }
    #expect(write("link", "by the link") == nil)
    #expect(try text(of: "page") == "by the link")
    #expect(try text(of: "hard") == page, "the earlier page is untouched until the new one is whole")
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path("link")) == "page")
    #expect(try text(of: "nothing") == page)
    let mode = try FileManager.default.attributesOfItem(atPath: path("page"))[.posixPermissions] as? Int
    #expect(mode == 0o640)
    #expect(
      write("none/x")?.hasSuffix("none/x: No such file or directory; create the directory none, or give another file")
        == true)
    #expect(write(".")?.contains("Is a directory") == true)
    symlink("loop", path("loop"))
    #expect(write("loop") == "loop: Too many levels of symbolic links")
    symlink("missing/page", path("far"))
    #expect(write("far")?.contains("create the directory missing, or") == true, "\(write("far") ?? "")")
    #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).allSatisfy { !$0.hasPrefix(".") })
  }

  /// Also by another name of the same file, and if it is empty or a page.
  @Test func anInputIsNeverReplaced() throws {
    try put(lines(3, from: 1), in: "a.jsonl")
    try put("", in: "empty")
    symlink("a.jsonl", path("link"))
    link(path("a.jsonl"), path("hard"))
    for (output, input) in [("a.jsonl", "a.jsonl"), ("link", "a.jsonl"), ("hard", "a.jsonl"), ("a.jsonl", "link")] {
      #expect(write(output, reading: ["other", input])?.contains("is an input") == true, "\(output) \(input)")
    }
    #expect(write("empty", reading: ["empty"])?.contains("is an input") == true)
    #expect(try text(of: "a.jsonl") == lines(3, from: 1))
  }

  @Test func noCommandWritesToItsInput() throws {
    try put(lines(3, from: 1), in: "a.jsonl")
    try put(lines(3, from: 11), in: "b.jsonl")
    try put("limits: {memory: 8MiB}\n", in: "s.yaml")
    let commands = [
      // The name of the page is forgotten.
      "report --html *.jsonl", "report --html a.jsonl </dev/null", "report --html a.jsonl <a.jsonl",
      "report --html a.jsonl a.jsonl", "report --html /dev/stdout a.jsonl >>a.jsonl", "report a.jsonl >>a.jsonl",
      "report --format otlp b.jsonl a.jsonl >>a.jsonl", "report --format pprof a.jsonl 1<>a.jsonl",
      "report --diff a.jsonl b.jsonl >>b.jsonl", "report <a.jsonl 1<>a.jsonl", "symbolicate a.jsonl >>a.jsonl",
      "symbolicate - <a.jsonl >>a.jsonl", "tail --json a.jsonl >>a.jsonl", "check --config s.yaml --print >>s.yaml",
    ]
    let script = commands.map { "timeout 20 \"$stalld\" \($0); echo \"$? \(UUID())\" >&2" }.joined(separator: "\n")
    let result = try run(script)
    let answers = result.errors.split(separator: "\n").map(String.init)
    #expect(answers.count == 2 * commands.count, "\(result.errors)")
    for (command, number) in zip(commands, answers.indices.filter { $0 % 2 == 0 }) where number + 1 < answers.count {
      #expect(answers[number + 1].hasPrefix("1 "), "\(command): \(answers[number + 1])")
      #expect(answers[number].contains("input") || answers[number].contains("report lines"), "\(answers[number])")
    }
    #expect(try text(of: "a.jsonl") == lines(3, from: 1))
    #expect(try text(of: "b.jsonl") == lines(3, from: 11))
    #expect(try text(of: "s.yaml") == "limits: {memory: 8MiB}\n")
  }

  @Test func aPageGoesToWhatIsNoRegularFile() throws {
    try put(lines(3, from: 1), in: "a.jsonl")
    let result = try run(
      """
      "$stalld" report --html - a.jsonl >1.html && "$stalld" report --html /dev/stdout a.jsonl >2.html &&
      "$stalld" report --html /dev/stdout a.jsonl | cat >3.html && "$stalld" report --html /dev/null a.jsonl &&
      mkfifo pipe && { cat pipe >4.html & "$stalld" report --html pipe a.jsonl; } && wait
      ls -A
      """)
    #expect(result.status == 0, "\(result)")
    #expect(result.output.split(separator: "\n") == ["1.html", "2.html", "3.html", "4.html", "a.jsonl", "pipe"])
    for number in 1...4 { #expect(try text(of: "\(number).html").hasSuffix("</html>\n")) }
  }

  /// A limit on the size of files is an error of a write, as a full disk is.
  @Test func thePageStaysIfTheNewOneHasNoSpace() throws {
    try put(lines(3, from: 1), in: "a.jsonl")
    let result = try run(
      """
      "$stalld" report --html page.html a.jsonl && cp page.html before && ls -A >names
      (ulimit -f 8; exec "$stalld" report --html page.html a.jsonl) || echo "exit code $?"
      cmp before page.html && ls -A | diff names - && "$stalld" report --html page.html a.jsonl && echo replaced
      """)
    #expect(result.output == "exit code 1\nreplaced\n", "\(result)")
    #expect(result.errors.contains("page.html: File too large"), "\(result)")
  }

  @Test(.enabled(if: getuid() == 0, "not root")) func aDirectoryThatMayNotBeWrittenIsNamed() throws {
    chmod(scratch.path, 0o755)
    try put(lines(3, from: 1), in: "a.jsonl")
    chmod(path("a.jsonl"), 0o644)
    let result = try run(
      "setpriv --reuid 65534 --clear-groups \"$stalld\" report --html page.html a.jsonl; echo \"exit code $?\"; ls")
    #expect(result.output == "exit code 1\na.jsonl\n", "\(result)")
    #expect(result.errors.contains("page.html: Permission denied; let user 65534 write to ., or"), "\(result.errors)")
  }

  @Test(.enabled(if: getuid() == 0, "not root")) func aBlockDeviceIsNoPage() throws {
    try #require(mknod(path("block"), S_IFBLK | 0o600, 7 << 8 | 250) == 0)
    #expect(write("block")?.contains("block: is a block device") == true, "\(write("block") ?? "written")")
  }

  /// A volume of one file, as containers have them.
  @Test(.enabled(if: getuid() == 0, "not root")) func aMountPointGetsAdvice() throws {
    try put(lines(3, from: 1), in: "a.jsonl")
    let result = try run(
      """
      : >page; : >other
      unshare --mount bash -c 'mount --bind other page && { "$stalld" report --html page a.jsonl; echo $?; }; ls -A'
      """)
    guard result.output.hasPrefix("1\n") else { return }  // A container may not mount.
    #expect(result.output == "1\na.jsonl\nother\npage\n")
    #expect(result.errors.contains("page: Device or resource busy; it is a mount point"), "\(result.errors)")
  }

  @Test func aSignalLeavesNoUnfinishedPage() throws {
    try put(lines(3000, from: 1), in: "a.jsonl")
    let result = try run(
      """
      for n in {1..12}; do
        "$stalld" report --html page a.jsonl & sleep 0.0$((n * 7 % 10)); kill -$( ((n % 2)) && echo TERM || echo HUP) $!; wait $!
      done 2>/dev/null
      ls -A | grep -v -e page -e a.jsonl
      """)
    #expect(result.output == "", "\(result)")
    let isBlocked = ThreadSignals.blocking([SIGTERM]) { () -> Bool in
      var mask = sigset_t()
      pthread_sigmask(SIG_BLOCK, nil, &mask)
      return sigismember(&mask, SIGTERM) == 1
    }
    #expect(isBlocked)
  }

  @Test func wideCharactersTakeTwoColumns() throws {
    let wide: [UInt32] = [
      0x2b50, 0x2728, 0x26d4, 0x23f0, 0x2795, 0x2757, 0x2b1b, 0x2693, 0x267f, 0x1f7f0, 0x1f004, 0x1f0cf, 0x1f18e,
      0x1f201,
      0x17000, 0x1b000, 0x1100, 0x3042, 0x4e00, 0xac00, 0xff01, 0x1f600, 0x1f6dc, 0x20000, 0x31350, 0x3fffd,
    ]
    let narrow: [UInt32] = [0x41, 0xe9, 0x2026, 0x2588, 0x2713, 0x2b4f, 0x303f, 0xff61, 0x1f005, 0x1f321, 0x1f322]
    for (values, width) in [(wide, 2), (narrow, 1)] {
      for value in values {
        let scalar = try #require(Unicode.Scalar(value))
        #expect(TerminalText.width(String(scalar)) == width, "\(String(value, radix: 16))")
      }
    }
    #expect(zip(TerminalText.wide, TerminalText.wide.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
  }

  // MARK: Inputs

  private func failures(_ outcome: ReportReader.Outcome) -> [String] {
    outcome.inputs.failures.map { "\($0.file.replacing(scratch.path + "/", with: "")): \($0.reason)" }
  }

  /// The number of stalls in files that can all be read.
  private func count(_ inputs: InputFiles) -> Int {
    let outcome = ReportReader().read(inputs)
    #expect(failures(outcome) == [])
    return outcome.pass.stalls.count
  }

  private func compress(_ name: String) throws { try GzipFile.compress(path(name)) { false } }

  private func rename(_ name: String, to other: String) { Foundation.rename(path(name), path(other)) }

  private static let older = "s.jsonl.2026-11-27T09-00-00.000000Z"
  private static let old = "s.jsonl.2026-11-28T09-00-00.000000Z"
  private static let new = "s.jsonl.2026-11-28T10-00-00.000000Z"
  private static let all = [old, "s.jsonl", older]

  /// Files of ten stalls each, of which a command has listed some.
  private func listing(_ names: [String] = all) throws -> InputFiles {
    for name in try FileManager.default.contentsOfDirectory(atPath: scratch.path) { unlink(path(name)) }
    for (index, name) in [Self.older, Self.old, "s.jsonl"].enumerated() {
      try put(lines(10, from: 10 * index + 1), in: name)
    }
    return InputFiles(names.map(path))
  }

  private func rotate() throws {
    rename("s.jsonl", to: Self.new)
    try put(lines(10, from: 31), in: "s.jsonl")
  }

  /// Files are open from the beginning of the command: their names do not matter afterwards.
  @Test func whatFilesHadIsReadWhateverHappensToTheirNames() throws {
    let operations: [(String, () throws -> Void)] = [
      ("compressed", { try compress(Self.old) }), ("rotated", rotate),
      (
        "rotated and compressed",
        {
          try rotate(); try compress(Self.new); try compress(Self.older)
        }
      ),
      ("rotated, and not yet written again", { rename("s.jsonl", to: Self.new) }),
      (
        "as logrotate names files, with a file from before",
        {
          rename(Self.old, to: "s.jsonl.1"); rename("s.jsonl", to: Self.old);
          try put(lines(10, from: 31), in: "s.jsonl")
        }
      ),
      (
        "removed, with a foreign file beside it",
        {
          unlink(path("s.jsonl")); try put(lines(10, from: 31), in: "s.jsonl.bak")
        }
      ),
      // The new file may get the inode of the old one.
      (
        "compressed by hand",
        {
          try compress("s.jsonl"); try put(lines(10, from: 31), in: "s.jsonl")
        }
      ),
      (
        "appended to",
        {
          try put(lines(10, from: 31), in: "more"); _ = try run("cat more >>\(Self.old)")
        }
      ),
    ]
    for (name, operation) in operations {
      let inputs = try listing()
      try operation()
      let pass = ReportReader().read(inputs)
      #expect(failures(pass) == [], "\(name)")
      #expect(pass.pass.stalls.count == (name == "appended to" ? 40 : 30), "\(name)")
    }
    // A shell has listed the files before the command began.
    _ = try listing()
    try compress(Self.old)
    #expect(count(InputFiles([Self.old, "s.jsonl"].map(path))) == 20)
    #expect(count(InputFiles([Self.old, "s.jsonl", Self.old + ".gz"].map(path))) == 20)
  }

  /// A pipe that is read first holds the command up; what happens meanwhile is another program's work.
  @Test func commandsReadTheFilesOfTheirBeginning() throws {
    for (name, first) in [("F", 1), ("A", 11), ("B", 21), ("C", 31)] { try put(lines(10, from: first), in: name) }
    // A command that reads first, what happens, and the stalls (or lines) and the exit code.
    let cases = [
      ("cp A a; cp B a.1", "report --format csv first a a.1", "mv a.1 a.2; mv a a.1; cp C a", "30 0"),
      ("cp A a", "report --format csv first a", "rm a; cp B a.bak", "20 0"),
      ("cp A a", "report --format csv first a", "cp a a.1; : >a", "10 1"),
      ("cp A a", "symbolicate first a", "cp a a.1; : >a", "10 1"),
      ("cp A a", "report --format csv first a", "gzip a; cp C a", "20 0"),
      ("cp A a; gzip -c B >a.gz", "report --format csv first a a.gz", "rm a", "30 0"),
      ("cp A a", "report --diff first a", "mv a a.old; head -5 C >a", "1 0"),
      ("cp A a; ln a b", "report --format otlp first a b a", "true", "20 0"),
      ("cp A a; ln a b", "symbolicate first a b a", "true", "20 0"),
      // Descriptors are short.
      (
        "ulimit -n 20; cp A a; cp B b; for n in {1..30}; do cp A c$n; done", "report --format csv first c? a b", "true",
        "30 0"
      ),
      (
        "ulimit -n 20; for n in {1..30}; do cp A c$n; done; cp B a", "report --format csv first c? a",
        "mv a a.1; cp C a", "20 1"
      ),
    ]
    for (prepare, command, operation, expected) in cases {
      let result = try run(
        """
        rm -f first a a.* b c*; mkfifo first; \(prepare)
        timeout 40 "$stalld" \(command) >out 2>err & exec 3>first
        sleep 0.3; \(operation)
        cat F >&3; exec 3>&-
        wait $!; code=$?
        case "\(command)" in
          *diff*) echo "$(grep -c '^a: 10 stalls' out) $code";;
          *csv*) echo "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "count") c = i } NR > 1 { n += $c } END { print n }' out) $code";;
          *) echo "$(grep -c . out) $code";;
        esac
        cat err >&2
        """)
      #expect(result.output == expected + "\n", "\(prepare); \(command); \(operation): \(result)")
      if expected.hasSuffix(" 1") { #expect(result.errors.contains(" while the command ran"), "\(result.errors)") }
    }
  }

  @Test func truncatedFileIsAFailure() throws {
    let inputs = try listing()
    truncate(path("s.jsonl"), 0)
    truncate(path(Self.old), 1000)
    let outcome = ReportReader().read(inputs)
    #expect(outcome.pass.stalls.count < 20)
    #expect(failures(outcome).count == 2)
    #expect(
      failures(outcome).allSatisfy { $0.hasSuffix("was truncated while the command ran") }, "\(failures(outcome))")
  }

  /// While a file is compressed, there are three of it.
  @Test func copiesOfAFileCountOnce() throws {
    _ = try listing()
    try put("", in: Self.old + ".gz.part")
    #expect(count(InputFiles([Self.old, Self.old + ".gz.part"].map(path))) == 10)
    try put(lines(5, from: 11), in: "part")
    try compress("part")
    rename("part.gz", to: Self.old + ".gz")
    #expect(count(InputFiles([Self.old, Self.old + ".gz"].map(path))) == 10, "a stall counts once, by its id")
    truncate(path(Self.old + ".gz"), 60)
    let cut = ReportReader().read(InputFiles([Self.old, Self.old + ".gz"].map(path)))
    #expect(cut.pass.stalls.count == 10 && failures(cut).count == 1)
    link(path(Self.old), path("hard"))
    symlink(Self.old, path("link"))
    #expect(ReportReader().read(InputFiles([Self.old, "hard", "link", Self.old].map(path))).pass.lines == 10)
  }

  @Test func bytesThatAreNoLinesAreNamed() throws {
    try put(lines(10, from: 1), in: "A")
    try put(lines(10, from: 11), in: "B")
    let prepared = try run(
      """
      gzip -c A >a.gz; gzip -c B >b.gz; cat a.gz b.gz >two.gz; cat a.gz B >lines.gz; (cat a.gz; printf x) >byte.gz
      (cat a.gz; head -c 100 /dev/zero; cat b.gz) >nul.gz; head -c 1 a.gz >one.gz; head -c 9 a.gz >header
      (head -c 2000000 /dev/zero; cat A; head -c 100 /dev/zero; cat B) >hole; (cat A; head -c 100 /dev/zero) >end
      head -c 4096 /dev/zero >zeros
      """)
    try #require(prepared.status == 0, "\(prepared)")
    let cases: [(String, Int, String?)] = [
      ("two.gz", 20, nil), ("hole", 20, nil),
      ("lines.gz", 10, "lines.gz: only 10 lines could be read: what follows the gzip data is none"),
      ("byte.gz", 10, "byte.gz: only 10 lines could be read: "),
      ("nul.gz", 10, "nul.gz: only 10 lines could be read: what follows"),
      ("one.gz", 0, "one.gz: only 0 lines could be read: unexpected end of file"),
      ("header", 0, "header: only 0 lines could be read: unexpected end of file"),
      ("end", 10, "end: only 10 lines could be read: ends with NUL bytes in place of lines"),
      ("zeros", 0, "zeros: only 0 lines could be read: ends with NUL bytes"),
    ]
    for (name, stalls, failure) in cases {
      let outcome = ReportReader().read(InputFiles([path(name)]))
      #expect(outcome.pass.stalls.count == stalls && outcome.pass.skipped.count == 0, "\(name)")
      let first = failures(outcome).first
      #expect(failure.map { first?.hasPrefix($0) == true } ?? (first == nil), "\(name): \(first ?? "read")")
    }
    let named = try run("\"$stalld\" symbolicate hole zeros; echo $?")
    #expect(named.output == lines(10, from: 1) + lines(10, from: 11) + "1\n")
    #expect(named.errors.contains("zeros: ends with NUL bytes in place of lines"), "\(named.errors)")
    // A last line without a newline is a line.
    let glued = try run("head -c -1 A >nonl; \"$stalld\" symbolicate nonl B; \"$stalld\" symbolicate nonl | cmp nonl")
    #expect(glued.output == lines(10, from: 1) + lines(10, from: 11), "\(glued)")
  }

  /// Each command names what it cannot read, reads the rest, and fails.
  @Test func whatCannotBeReadIsInEachOutput() throws {
    try put(lines(10, from: 1), in: "good")
    try put(
      (1...3000).map { ReportCommandTests.line(id: 100 + $0, culprit: "f\($0 * 7919 % 2003)") + "\n" }.joined(),
      in: "cut")
    try put(lines(10, from: 9000), in: "damaged")
    let prepared = try run(
      """
      gzip cut damaged && truncate --size=-2000 cut.gz && : >empty.gz && mkdir directory
      printf xxxx | dd of=damaged.gz bs=1 seek=$(($(stat --format %s damaged.gz) - 8)) conv=notrunc status=none
      """)
    try #require(prepared.status == 0, "\(prepared)")
    let files = "good missing cut.gz damaged.gz empty.gz directory"
    let said = [
      "missing: No such file or directory", "cut.gz: only", "lines could be read: unexpected end of file",
      "lines could be read: incorrect data check",
      "damaged.gz: only", "empty.gz: is empty, which no gzip file is",
      "directory: Is a directory",
    ]
    for (arguments, shown) in [
      ("", "5 inputs could not be read to the end: the numbers may be too low\n"),
      ("--format json", #""unreadable":{"count":5,"first":[{"file":"missing","reason":"No such file"#),
      ("--format csv", ",last_seen,unreadable_inputs\r\n"), ("--html -", #""unread":5,"#), ("--format folded", "web;"),
      ("--format otlp", "resourceLogs"),
    ] {
      let result = try run("\"$stalld\" report \(arguments) \(files)")
      #expect(result.status == 1)
      #expect(result.output.contains(shown), "\(arguments): \(result.output.prefix(600))")
      #expect(said.allSatisfy { result.errors.contains($0) }, "\(result.errors)")
    }
    #expect(try run("\"$stalld\" report --format csv good missing").output.contains("Z,1\r\n"))
    #expect(try run("\"$stalld\" report --format csv good").output.contains("Z,0\r\n"))
    let difference = try run("\"$stalld\" report --diff good cut.gz")
    #expect(difference.status == 1)
    #expect(difference.output.contains("\ncut.gz: 1 input could not be read to the end"), "\(difference.output)")
    // tail waits for a file that is missing, until the signal.
    for (command, seconds, status) in [("symbolicate", 60, 1), ("tail --lines 100", 3, 124)] {
      let result = try run("timeout --signal INT \(seconds) \"$stalld\" \(command) - missing <good")
      #expect(result.status == status && !result.output.isEmpty, "\(command)")
      #expect(result.errors.contains("missing: No such file or directory"), "\(command): \(result.errors)")
    }
    let packed = try run("cp cut.gz packed.gz; \"$stalld\" symbolicate packed")
    #expect(packed.status == 1 && packed.errors.contains("this is a gzip file; type zcat packed"), "\(packed)")
    let stream = try run("\"$stalld\" tail - <directory")
    #expect(stream.status == 1 && stream.errors.contains("standard input: Is a directory"), "\(stream)")
  }
}
