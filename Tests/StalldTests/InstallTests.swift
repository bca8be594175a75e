import Foundation
import TestSupport
import Testing

/// What `make install` does beside copying files.
struct InstallTests {
  /// Runs scripts/refresh-loader with a loader that is configured for `/srv/known`; says whether that was asked to read its directories again.
  private func refresh(
    _ directory: String, through wrapper: [String] = [], environment: [String: String] = [:]
  ) throws -> (said: String, isRefreshed: Bool) {
    let scratch = try ScratchDirectory()
    chmod(scratch.url.path, 0o777)
    let loader = scratch.url.appending(path: "ldconfig")
    let mark = scratch.url.appending(path: "refreshed").path
    try """
    #!/bin/sh
    if [ "$*" = "-v -N -X" ]; then printf '/lib: (from <builtin>:0)\\n\\tlibc.so.6 -> libc.so.6\\n/srv/known: (from /etc/ld.so.conf:1)\\n'
    elif [ -z "$*" ]; then touch \(mark); else exit 1; fi
    """.write(to: loader, atomically: true, encoding: .utf8)
    chmod(loader.path, 0o755)
    let command = wrapper + [Repository.file("scripts/refresh-loader").path, directory]
    let result = try Program.run(
      command[0], Array(command.dropFirst()), environment: environment.merging(["LDCONFIG": loader.path]) { $1 })
    #expect(result.status == 0 && result.output == "")
    return (result.errors, FileManager.default.fileExists(atPath: mark))
  }

  /// Red Hat's package has a command and a unit of the same name.
  @Test func anotherProgramOfTheNameIsNotReplaced() throws {
    func install(_ files: [String: String], prefix: String) throws -> Program {
      let root = try ScratchDirectory()
      for (path, text) in files {
        let file = root.url.appending(path: path)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
      }
      return try Program.run(
        Repository.file("scripts/check-other-stalld").path, [prefix], environment: ["DESTDIR": root.url.path])
    }
    let (command, unit) = ("usr/bin/stalld", "usr/lib/systemd/system/stalld.service")
    let own = [
      command: "\u{7f}ELF\0 STALLMONITOR_SINK \0",
      unit: try String(contentsOf: Repository.file("systemd/stalld.service"), encoding: .utf8),
    ]
    for prefix in ["/usr", "/usr/local"] {
      #expect(try install([:], prefix: prefix).status == 0)
      #expect(try install(own, prefix: prefix).status == 0, "an update")
      for (path, text) in [(command, "\u{7f}ELF\0 boost \0"), (unit, "ExecStart=/usr/bin/stalld --systemd $CLIST\n")] {
        let refused = try install([path: text], prefix: prefix)
        #expect(refused.status == 1)
        #expect(refused.errors.contains("/\(path) belongs to another program named stalld"), "\(refused.errors)")
        #expect(refused.errors.contains("make install-library"))
      }
    }
    for file in ["Makefile", "scripts/install-agent"] {
      #expect(try String(contentsOf: Repository.file(file), encoding: .utf8).contains("scripts/check-other-stalld"))
    }
  }

  /// A relative path would be one below the clone, whatever the user's directory is.
  @Test(arguments: [
    (["make", "--no-print-directory", "install", "PREFIX=out"], "PREFIX=out is a relative path"),
    (["make", "--no-print-directory", "install", "PREFIX="], "PREFIX is empty"),
    (["make", "--no-print-directory", "install-library", "PREFIX=~/out"], "PREFIX=~/out is a relative path"),
    (["make", "--no-print-directory", "install-library", "PREFIX="], "PREFIX is empty"),
    (["scripts/build-c-library", "out"], "DIRECTORY=out is a relative path"),
    (["scripts/build-c-library", ""], "DIRECTORY is empty"),
    (["scripts/install-agent", "./out"], "PREFIX=./out is a relative path"),
    (["scripts/install-agent"], "PREFIX is empty"),
    (["make", "--no-print-directory", "uninstall", "PREFIX=out"], "PREFIX=out is a relative path"),
  ])
  func aPrefixIsAnAbsolutePath(_ command: [String], _ said: String) throws {
    // Below another make, as in `make test`, it would name its directory.
    // Nothing is built before: neither command finds a compiler.
    let run = try Program.run(
      "/usr/bin/env", command, environment: ["SWIFT": "/nonexistent"], in: Repository.root, limit: 30)
    #expect(run.status != 0 && run.output == "")
    #expect(run.errors.hasPrefix(said + "; nothing was changed. Allowed: an absolute path, such as /usr/local or "))
  }

  /// A copy of what `make install` reads, with what it would have built: the build itself takes minutes.
  private func makeClone(in scratch: ScratchDirectory) throws -> URL {
    let clone = scratch.url.appending(path: "clone")
    let built = clone.appending(path: ".build/agent")
    for directory in ["man", "completions"] {
      try FileManager.default.createDirectory(at: built.appending(path: directory), withIntermediateDirectories: true)
    }
    for name in ["Makefile", "scripts", "systemd", "Config", "Sources"] {
      try FileManager.default.createSymbolicLink(
        at: clone.appending(path: name), withDestinationURL: Repository.file(name))
    }
    try FileManager.default.copyItem(at: Program.built("stalld", "debug"), to: built.appending(path: "stalld"))
    for file in [
      "man/stalld.1", "man/stalld-run.8", "completions/bash", "completions/zsh", "completions/fish",
      "libstallmonitor.so",
    ] {
      try Data("text\n".utf8).write(to: built.appending(path: file))
    }
    return clone
  }

  private func files(below root: URL) throws -> Set<String> {
    Set(try FileManager.default.subpathsOfDirectory(atPath: root.path))
  }

  /// Into a directory that has files and directories of others, and an older version of the agent.
  @Test(.enabled(if: Program.installed("strip") != nil, "binutils is missing"))
  func uninstallRemovesWhatInstallWrote() throws {
    let scratch = try ScratchDirectory()
    let clone = try makeClone(in: scratch)
    let root = scratch.url.appending(path: "root")
    func make(_ target: String) throws -> Program {
      try Program.run(
        "/usr/bin/env", ["make", "--silent", "--old-file=agent", target, "PREFIX=/usr", "DESTDIR=\(root.path)"],
        environment: ["BUILT": clone.appending(path: ".build/agent").path, "SWIFT": "/nonexistent"], in: clone,
        limit: 60)
    }
    let (man, fish) = (root.appending(path: "usr/share/man/man1"), root.appending(path: "usr/share/fish"))
    for directory in [man, fish] {
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }
    try Data("other\n".utf8).write(to: man.appending(path: "other.1"))
    let before = try files(below: root)

    let page = clone.appending(path: ".build/agent/man/stalld-old.1")
    try Data("text\n".utf8).write(to: page)
    let first = try make("install")
    #expect(first.status == 0 && first.output + first.errors == "", "\(first.errors)")
    let settings = root.appending(path: "etc/stalld/stalld.yaml")
    #expect(
      FileManager.default.contentsEqual(atPath: settings.path, andPath: Repository.file("Config/stalld.yaml").path))
    let older = try files(below: root)
    #expect(older.contains("usr/share/man/man1/stalld-old.1"))

    // Over an older version, whose page has gone, and settings that were changed.
    try FileManager.default.removeItem(at: page)
    try Data("limits: {memory: 32MiB}\n".utf8).write(to: settings)
    #expect(try make("install").status == 0)
    let installed = try files(below: root)
    #expect(older.subtracting(installed) == ["usr/share/man/man1/stalld-old.1"] && installed.isSubset(of: older))
    #expect(try String(contentsOf: settings, encoding: .utf8) == "limits: {memory: 32MiB}\n", "they are the operator's")

    // Everything has its place, and works there.
    for name in ["watched.conf", "network.conf"] {
      let place = "usr/share/stalld/systemd/\(name)"
      #expect(installed.contains(place))
      let operating = try String(contentsOf: Repository.file("Documentation/Operating.md"), encoding: .utf8)
      #expect(operating.contains("/\(place)"), "Operating.md names it")
    }
    let command = root.appending(path: "usr/bin/stalld").path
    #expect(
      try Program.run(command, ["--version"]).output
        == Program.run(Program.built("stalld", "debug").path, ["--version"]).output)
    #expect(try Program.run(command, ["check", "--config", settings.path]).status == 0)
    let unit = try String(contentsOf: root.appending(path: "usr/lib/systemd/system/stalld.service"), encoding: .utf8)
    #expect(unit.contains("ExecStart=/usr/bin/stalld run\n"))

    let removed = try make("uninstall")
    #expect(removed.status == 0 && removed.output + removed.errors == "", "\(removed.errors)")
    #expect(try files(below: root) == before.union(["etc", "etc/stalld", "etc/stalld/stalld.yaml"]))
    let again = try make("uninstall")
    #expect(again.status != 0 && again.errors.contains("has no list of installed files; nothing was removed"))
  }

  /// The agent, its unit and its commands read /etc/stalld/stalld.yaml.
  @Test(arguments: [["make", "--no-print-directory", "install"], ["scripts/install-agent", "/usr"]])
  func settingsAreInstalledWhereTheyAreRead(_ command: [String]) throws {
    let scratch = try ScratchDirectory()
    let run = try Program.run(
      "/usr/bin/env", command,
      environment: ["SYSCONFDIR": "/srv/etc", "DESTDIR": scratch.path, "SWIFT": "/nonexistent"], in: Repository.root,
      limit: 30)
    #expect(run.status != 0)
    #expect(run.errors.hasPrefix("SYSCONFDIR=/srv/etc is not supported; nothing was changed. Allowed: /etc, "))
    #expect(try files(below: scratch.url).isEmpty)
  }

  /// `make install-library` ends with what to do next.
  @Test(.enabled(if: Program.installed("dpkg-query") != nil, "no dpkg, which knows the packages that are installed"))
  func theLastLineSaysWhereTheLibraryIs() throws {
    let scratch = try ScratchDirectory()
    let prefix = scratch.url.appending(path: "prefix").path
    let built = Repository.file(".build/c-library/root/lib").path
    try #require(FileManager.default.fileExists(atPath: built), "libstallmonitor is missing: run `make test`")
    let run = try Program.run(
      "/usr/bin/env", ["make", "--silent", "install-library", "PREFIX=\(prefix)"],
      environment: ["BUILT": built, "LDCONFIG": "/bin/true"], in: Repository.root, limit: 60)
    #expect(run.status == 0, "\(run.errors)")
    #expect(
      run.output
        == "Installed in \(prefix). Next: compile a service, as Documentation/GettingStarted/CService.md shows.\n")
    #expect(FileManager.default.fileExists(atPath: prefix + "/lib/pkgconfig/stallmonitor.pc"))
    let page = try String(contentsOf: Repository.file("Documentation/GettingStarted/CService.md"), encoding: .utf8)
    #expect(page.contains((run.errors + run.output).replacing(prefix, with: "/home/you/.local")), "\(run.errors)")
  }

  @Test(.enabled(if: getuid() == 0, "not root")) func loaderIsRefreshedOrLdconfigIsAdvised() throws {
    let known = try refresh("/srv/known")
    #expect(known.said == "" && known.isRefreshed)
    let unknown = try refresh("/srv/unknown")
    #expect(unknown.said.contains("-Wl,-rpath,/srv/unknown") && !unknown.isRefreshed)
    let package = try refresh("/srv/known", environment: ["DESTDIR": "/tmp/package"])
    #expect(package.said == "" && !package.isRefreshed, "a packager's is not this machine's")
    let text = try String(contentsOf: Repository.file("Makefile"), encoding: .utf8)
    #expect(text.contains("scripts/refresh-loader \"$(PREFIX)/lib\""))
  }
}
