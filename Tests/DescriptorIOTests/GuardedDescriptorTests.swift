import Foundation
import Glibc
import Testing

@testable import DescriptorIO

/// A number is used only while it still leads to the file that was opened.
struct GuardedDescriptorTests {
  private func open() -> Int32 { temporaryFile() }

  private func temporaryFile() -> Int32 {
    var template = Array("/tmp/stalld-guard-XXXXXX".utf8CString)
    let file = mkstemp(&template)
    unlink(template)
    return file
  }

  @Test func numberOfAnotherFileIsNeitherUsedNorClosed() throws {
    let number = open()
    let guarded = try #require(GuardedDescriptor(number))
    #expect(guarded.isIntact && guarded.isSameFile(as: number))
    let other = open()
    dup2(other, number)
    #expect(!guarded.isIntact)
    guarded.close()
    #expect(fcntl(number, F_GETFD) >= 0, "it is the other file's")
    #expect(guarded.file != FileIdentity(number))
    close(other)
    close(number)
  }

  @Test func ownNumberIsClosed() throws {
    let number = fcntl(open(), F_DUPFD_CLOEXEC, 900)
    let guarded = try #require(GuardedDescriptor(number))
    guarded.close()
    #expect(!guarded.isIntact)
    #expect(fcntl(number, F_GETFD) < 0)
    #expect(GuardedDescriptor(-1) == nil)
  }

  @Test func copiesLeadToTheSameFile() throws {
    let number = open()
    defer { close(number) }
    let copy = dup(number)
    defer { close(copy) }
    #expect(try #require(GuardedDescriptor(number)).isSameFile(as: copy))
  }
}

struct SocketAddressTests {
  @Test func pathsAndNamesHaveTheirLimits() {
    #expect(SocketAddress.longestPath == 107)
    #expect(SocketAddress(path: String(repeating: "a", count: 107)) != nil)
    #expect(SocketAddress(path: String(repeating: "a", count: 108)) == nil)
    #expect(SocketAddress(path: "") == nil)
    #expect(UnixDatagramSocket(address: "@" + String(repeating: "a", count: 107)) != nil)
    #expect(UnixDatagramSocket(address: "@" + String(repeating: "a", count: 108)) == nil)
    #expect(UnixDatagramSocket(address: "relative") == nil)
    #expect(SocketAddress(host: "localhost", port: 1) == nil)
    #expect(SocketAddress(host: "::1", port: 1)?.family == AF_INET6)
  }

  /// Connected, refused, and who it is.
  @Test func connectionHasItsPeersIdentity() throws {
    let path = "/tmp/stalld-address-\(UUID().uuidString)"
    defer { unlink(path) }
    let address = try #require(SocketAddress(path: path))
    #expect(address.connectedStream() == -1 && errno == ENOENT)
    let listener = address.makeSocket()
    defer { close(listener) }
    #expect(address.bind(listener) == 0)
    #expect(address.connectedStream() == -1 && errno == ECONNREFUSED)
    #expect(listen(listener, 1) == 0)
    let socket = address.connectedStream()
    defer { close(socket) }
    #expect(fcntl(socket, F_GETFL) & O_NONBLOCK != 0)
    let peer = try #require(PeerCredentials(socket: socket))
    #expect(peer.pid == getpid() && peer.uid == geteuid() && peer.gid == getegid())
  }

  @Test func datagramsReachAbstractNames() throws {
    // As long as the kernel takes one.
    let name = "stalld-\(UUID().uuidString)".padding(toLength: 107, withPad: "x", startingAt: 0)
    let receiver = try #require(SocketAddress(abstractName: name)).makeSocket(SOCK_DGRAM)
    defer { close(receiver) }
    #expect(SocketAddress(abstractName: name)?.bind(receiver) == 0)
    let sender = try #require(UnixDatagramSocket(address: "@" + name))
    #expect(sender.send("READY=1") == nil)
    var buffer = [UInt8](repeating: 0, count: 100)
    let count = recv(receiver, &buffer, 100, 0)
    #expect(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == "READY=1")
  }
}

struct DirectoryFilesTests {
  @Test func fileIsReplacedInWhole() throws {
    var template = Array("/tmp/stalld-files-XXXXXX".utf8CString)
    let path = String(cString: try #require(mkdtemp(&template)))
    defer { try? FileManager.default.removeItem(atPath: path) }
    let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { close(directory) }
    try Data("left by a process that was killed".utf8).write(to: URL(fileURLWithPath: path + "/a.part"))
    for text in ["one", "two"] {
      #expect(DirectoryFiles.replace("a", in: directory, unfinished: "a.part", with: Array(text.utf8)) == 0)
      #expect(try String(contentsOfFile: path + "/a", encoding: .utf8) == text)
    }
    var names: Set<String> = []
    #expect(DirectoryFiles.forEachName(in: directory) { names.insert($0).inserted })
    #expect(names == [".", "..", "a"])
    #expect(DirectoryFiles.replace("a/b", in: directory, unfinished: "c", with: [1]) != 0)
    #expect(access(path + "/c", F_OK) != 0)
  }
}
