import Foundation
import TestSupport

/// What `make install` lays down, as a tree to lay over a booted system: the release build, the units and what belongs to them.
///
/// The Swift libraries lie beside the programs: the toolchain's may live where the unit cannot see them (ProtectHome), and `$ORIGIN` is in
/// the executables' search path. Linking them statically would mean building everything a third time.
enum Installation {
  /// Where programs of the tests lie in the machine.
  static let programs = "/usr/lib/stalld"

  /// Makes the tree, with links that enable units: `sockets.target.wants/stalld.socket`.
  static func make(enabling links: [String]) throws -> ScratchDirectory {
    let files = try ScratchDirectory()
    let manager = FileManager.default
    func place(_ path: String) throws -> URL {
      let url = files.url.appending(path: path)
      try manager.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      return url
    }
    for name in ["stalld", "StallVictim"] {
      let program = try Program.built(name, "release")
      try manager.copyItem(at: program, to: place("\(programs)/\(name)"))
      for line in try Program.run("/usr/bin/ldd", [program.path]).output.split(separator: "\n") {
        let words = line.split(separator: " ")
        guard words.count >= 3, words[2].contains("/swift/linux/") else { continue }
        let copy = try place("\(programs)/\(words[0].drop { $0.isWhitespace })")
        guard !manager.fileExists(atPath: copy.path) else { continue }
        try manager.copyItem(at: URL(fileURLWithPath: String(words[2])).resolvingSymlinksInPath(), to: copy)
      }
    }
    try manager.createSymbolicLink(atPath: place("usr/bin/stalld").path, withDestinationPath: "\(programs)/stalld")
    for (source, target) in [
      ("systemd/stalld.service", "usr/lib/systemd/system/stalld.service"),
      ("systemd/stalld.socket", "usr/lib/systemd/system/stalld.socket"),
      ("systemd/sysusers.d/stalld.conf", "usr/lib/sysusers.d/stalld.conf"),
      ("systemd/tmpfiles.d/stalld.conf", "usr/lib/tmpfiles.d/stalld.conf"),
      ("systemd/catalog/stalld.catalog", "usr/lib/systemd/catalog/stalld.catalog"),
      ("systemd/examples", "usr/share/stalld/systemd"), ("Config/stalld.yaml", "etc/stalld/stalld.yaml"),
      ("Tests/Support/agent-host.py", "\(programs)/agent-host.py"),
    ] {
      try manager.copyItem(at: Repository.root.appending(path: source), to: place(target))
    }
    for link in links {
      try manager.createSymbolicLink(
        atPath: place("etc/systemd/system/\(link)").path,
        withDestinationPath: "/usr/lib/systemd/system/\(link.split(separator: "/")[1])")
    }
    return files
  }
}
