import Foundation
import Glibc
import TestSupport
import Testing

/// An ext4 file system in a file, which can be frozen, and read as after a power cut; removed with
/// its last reference.
final class LoopDisk {
  /// Why there is none here; nil if there is.
  static let obstacle: String? = {
    if geteuid() != 0 { return "mounting a file system needs root" }
    let missing = ["mkfs.ext4", "fsfreeze"].filter { program($0) == nil }
    if !missing.isEmpty { return "missing: \(missing.joined(separator: ", "))" }
    return access("/dev/loop-control", F_OK) == 0 ? nil : "there are no loop devices"
  }()

  let path: String
  private let scratch: ScratchDirectory
  private var isFrozen = false
  private let image: String

  /// Makes the image in `folder`, where it takes space as it is written, or in a folder of its own.
  init(imageIn folder: String? = nil) throws {
    scratch = try ScratchDirectory()
    path = scratch.url.appending(path: "disk").path
    image = folder.map { $0 + "/image" } ?? scratch.url.appending(path: "image").path
    mkdir(path, 0o755)
    try Data().write(to: URL(fileURLWithPath: image))
    try #require(truncate(image, 24 << 20) == 0)
    // A journal that cannot be written makes the file system read-only.
    try Self.run("mkfs.ext4", "-q", "-O", folder == nil ? "has_journal" : "^has_journal", image)
    // What is not synchronised stays in memory for long.
    try Self.run("mount", "-o", folder == nil ? "loop,commit=300" : "loop", image, path)
  }

  deinit {
    try? thaw()
    umount2(path, Int32(MNT_DETACH))
  }

  /// Every write waits from now on.
  func freeze() throws {
    try Self.run("fsfreeze", "--freeze", path)
    isFrozen = true
  }

  func thaw() throws {
    guard isFrozen else { return }
    isFrozen = false
    try Self.run("fsfreeze", "--unfreeze", path)
  }

  /// What a file would have after a power cut at this moment; empty if it would not be there.
  func afterPowerCut(_ name: String) throws -> Data {
    let other = try ScratchDirectory()
    let (copy, place) = (other.url.appending(path: "image").path, other.url.appending(path: "disk").path)
    try Self.run("cp", "--sparse=always", image, copy)
    mkdir(place, 0o755)
    try Self.run("mount", "-o", "loop", copy, place)
    defer { umount2(place, 0) }
    return (try? Data(contentsOf: URL(fileURLWithPath: "\(place)/\(name)"))) ?? Data()
  }

  private static func program(_ name: String) -> String? {
    ["/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"].map { $0 + name }.first { access($0, X_OK) == 0 }
  }

  private static func run(_ name: String, _ arguments: String...) throws {
    let result = try Program.run(#require(program(name)), arguments)
    try #require(result.status == 0, "\(name): \(result.errors)")
  }
}
