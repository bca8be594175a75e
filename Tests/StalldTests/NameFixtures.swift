import Foundation
import TestSupport
import Testing

@testable import stalld

/// Libraries with functions of known names, and clients of several users that report them.
struct NameFixtures {
  let scratch: ScratchDirectory

  /// A user who owns nothing here, and another one.
  static let attacker: UInt32 = 54321
  static let victim: UInt32 = 54322

  init() throws {
    scratch = try ScratchDirectory()
    _ = DebugFiles.obstacle()
  }

  /// A directory of a user's.
  func directory(_ name: String, of user: UInt32 = 0) throws -> String {
    let path = scratch.url.appending(path: name).path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    chmod(path, 0o755)
    chown(path, user, user)
    return path
  }

  /// A frame without a name.
  struct Frame {
    var path: String
    var buildID: String
    var offset: UInt64

    var json: String {
      #"{"module":"\#(path)","build_id":"\#(buildID)","offset":"0x\#(String(offset, radix: 16))"}"#
    }
  }

  /// Builds a library with one function; `strip` takes its name out of it.
  func library(
    _ path: String, function: String, buildID: String, owner: UInt32 = 0, link: String? = nil, strip: Bool = false
  ) throws -> Frame {
    let source = scratch.url.appending(path: "source.c").path
    try
      "__attribute__((visibility(\"hidden\"))) int \(function)(void) { return 1; }\nint entry(void) { return \(function)(); }\n"
      .write(toFile: source, atomically: true, encoding: .utf8)
    var command = "cc -O0 -g -shared -fPIC -Wl,--build-id=0x\(buildID) -o \(path) \(source)"
    command += " && nm \(path) | grep ' t \(function)$'"
    if strip { command += " && strip --strip-all \(path)" }
    if let link { command += " && objcopy --add-gnu-debuglink=\(link) \(path)" }
    let result = try Program.run("/bin/sh", ["-c", command])
    try #require(result.status == 0, "\(result.errors)")
    chown(path, owner, owner)
    let offset = try #require(result.output.split(separator: " ").first.flatMap { UInt64($0, radix: 16) })
    return Frame(path: path, buildID: buildID, offset: offset + 4)
  }

  /// The library's file with a debug section that a few hundred kilobytes unpack to 250 MB of.
  func bomb(_ path: String, buildID: String, owner: UInt32) throws -> Frame {
    let frame = try library(path, function: "bomb", buildID: buildID, owner: owner)
    let result = try Program.run(
      "/bin/sh",
      [
        "-c",
        """
        truncate -s 250M \(path).zeros && objcopy --add-section .debug_loc=\(path).zeros \(path) \
        && objcopy --compress-debug-sections=zlib \(path); rm -f \(path).zeros
        """,
      ])
    try #require(result.status == 0, "\(result.errors)")
    chown(path, owner, owner)
    return frame
  }

  /// A file of eight million functions.
  func manySymbols(_ path: String, buildID: String, owner: UInt32) throws -> Frame {
    let program = #"""
      import struct, sys
      note = struct.pack("<III4s", 4, len(sys.argv[2]) // 2, 3, b"GNU\0") + bytes.fromhex(sys.argv[2])
      machine = struct.unpack_from("<H", open("/proc/self/exe", "rb").read(20), 18)[0]
      names = b"\0.symtab\0.strtab\0.shstrtab\0.note\0"; strings = b"\0f\0"
      symbols = b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, 0x1000 + 16 * n, 16) for n in range(65536))
      place = 64 + len(note); place += -place % 8
      def section(name, kind, offset, size, link=0, entry=0):
          return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 8, entry)
      count = 128; size = count * len(symbols); after = place + size
      with open(sys.argv[1], "wb") as f:
          f.write(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
              "<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, after + 128, 0, 64, 56, 0, 64, 5, 3))
          f.write(note + bytes(place - 64 - len(note)))
          for _ in range(count): f.write(symbols)
          f.write((strings + names).ljust(128, b"\0"))
          f.write(section(0, 0, 0, 0) + section(1, 2, place, size, 2, 24) + section(9, 3, after, len(strings))
              + section(17, 3, after + len(strings), len(names)) + section(27, 7, 64, len(note)))
      """#
    let result = try Program.run("/usr/bin/python3", ["-c", program, path, buildID])
    try #require(result.status == 0, "\(result.errors)")
    chown(path, owner, owner)
    return Frame(path: path, buildID: buildID, offset: 0x1008)
  }

  /// A library of `count` functions, `f0`, `f1` …, each with a symbol; the frame is in `f1`.
  func manyFunctions(_ path: String, count: Int, buildID: String, owner: UInt32) throws -> Frame {
    let source = scratch.url.appending(path: "many.s").path
    var text = ".text\n"
    for number in 0..<count { text += ".type f\(number),@function\nf\(number): .zero 16\n.size f\(number),16\n" }
    try text.write(toFile: source, atomically: true, encoding: .utf8)
    let result = try Program.run(
      "/bin/sh",
      [
        "-c",
        "cc -nostdlib -shared -Wl,--build-id=0x\(buildID) -o \(path) \(source) && nm \(path) | grep ' t f1$'; rm \(source)",
      ])
    try #require(result.status == 0, "\(result.errors)")
    chown(path, owner, owner)
    let offset = try #require(result.output.split(separator: " ").first.flatMap { UInt64($0, radix: 16) })
    return Frame(path: path, buildID: buildID, offset: offset + 4)
  }

  /// A line with these frames.
  static func line(_ id: Int, _ frames: [Frame]) -> String {
    AgentClient.report(id: id, after: 0).replacing(
      #""stack":[]"#, with: #""stack":[\#(frames.map(\.json).joined(separator: ","))]"#)
  }

  /// Sends lines as a user's process, which ends when they are acknowledged.
  static func send(_ lines: [String], as user: UInt32, to agent: RunningAgent) throws {
    let process = try sender(lines, as: user, to: agent)
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
  }

  static func sender(_ lines: [String], as user: UInt32, to agent: RunningAgent) throws -> Process {
    let program = """
      import os, re, socket, sys
      user = int(sys.argv[2])
      if user: os.setgid(user); os.setuid(user)
      s = socket.socket(socket.AF_UNIX); s.settimeout(100); s.connect(sys.argv[1])
      lines = sys.argv[3:]
      s.sendall("".join(line + "\\n" for line in lines).encode())
      got = b""
      while b'{"acknowledged":%d}' % len(lines) not in got:
          piece = s.recv(4096)
          if not piece: sys.exit(1)
          got += piece
      """
    return try Program.start("/usr/bin/python3", ["-c", program, agent.socketPath, String(user)] + lines)
  }
}

extension RunningAgent {
  /// The process that names functions, if there is one.
  var worker: Int32? { workers.first }

  /// All such processes.
  var workers: [Int32] {
    let pid = process.processIdentifier
    let text = try? String(contentsOfFile: "/proc/\(pid)/task/\(pid)/children", encoding: .utf8)
    return (text ?? "").split(separator: " ").compactMap { Int32($0) }.filter { child in
      let command = FileManager.default.contents(atPath: "/proc/\(child)/cmdline") ?? Data()
      return String(decoding: command, as: UTF8.self).contains("name-worker")
    }
  }

  /// The line of a stall in its file.
  func line(_ id: Int) throws -> String? {
    let digits = String(id, radix: 16)
    let text = "\"id\":\"" + String(repeating: "0", count: 32 - digits.count) + digits
    return try lines().last { $0.contains(text) }
  }
}
