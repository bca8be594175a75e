import Foundation
import Glibc

/// Many hosts in one process: each has a connection, and sends report lines as a real one does, without names.
final class Hosts {
  private var sockets: [Int32] = []
  private var acknowledged: [Int] = []
  private var partial: [[UInt8]] = []
  private(set) var sent: [Int] = []
  /// What a socket would not take yet.
  private var pending: [[UInt8]] = []
  private let frames: String
  private var polled: [pollfd] = []

  private let isAcknowledged: Bool

  /// Connects; `isAcknowledged` is false for a daemon that says nothing.
  init(count: Int, path: String, frames: String, isAcknowledged: Bool) throws {
    self.frames = frames
    self.isAcknowledged = isAcknowledged
    for _ in 0..<count {
      let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      var name = sockaddr_un()
      name.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
      let connected = withUnsafePointer(to: &name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      }
      guard connected == 0 else { throw Collector.Failure(reason: "connect: \(String(cString: strerror(errno)))") }
      polled.append(pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0))
      sockets.append(descriptor)
    }
    sent = Array(repeating: 0, count: count)
    acknowledged = sent
    partial = Array(repeating: [], count: count)
    pending = partial
  }

  deinit {
    for socket in sockets { close(socket) }
  }

  /// Lines that are not acknowledged, or where nothing is, not yet with the kernel.
  var outstanding: Int {
    isAcknowledged ? zip(sent, acknowledged).reduce(0) { $0 + $1.0 - $1.1 } : pending.count { !$0.isEmpty }
  }

  /// Whether a socket has taken nothing for a while: who sends as fast as possible waits then.
  var isFull: Bool { pending.contains { $0.count > 16 << 10 } }

  /// Sends the report with this number, by one of the services; its ID contains the number.
  func send(_ number: Int) {
    let host = number % sockets.count
    let digits = String(number, radix: 16)
    let id = String(repeating: "0", count: 32 - digits.count) + digits
    let line =
      #"{"@timestamp":"2026-11-21T10:00:00.000000000Z","log.level":"warn","message":"main loop blocked for 312 ms in checkout+0x51b3: blocked in futex","event":{"name":"stall.ended","schema":"1.0"},"stall":{"id":"\#(id)","sequence":\#(sent[host] + 1),"threshold_ms":250,"duration_ms":312.482,"cause":"lock","evidence":{"state":"blocked","wait":"futex","observed_ms":312.001,"cpu_ms":0.022,"run_delay_ms":0.005},"culprit":"checkout+0x51b3","fingerprint":"v1:95f82a52abe11b03","samples":4},"loop":{"name":"main","kind":"loop","mode":"default","phase":"after-waiting"},"thread":{"id":4711,"name":"checkout"},"process":{"pid":4711,"executable":{"path":"/usr/bin/checkout","build_id":{"gnu":"6a52383ed409c6a7000000000000000000000000"}}},"service":{"name":"checkout-\#(host % 50)","version":"1.4.2"},"host":{"name":"node-1"},"stack":[\#(frames)]}"#
      + "\n"
    sent[host] += 1
    push(Array(line.utf8), to: host)
  }

  private func push(_ bytes: [UInt8], to host: Int) {
    guard pending[host].isEmpty else {
      pending[host] += bytes
      return
    }
    let count = max(0, Glibc.send(sockets[host], bytes, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL)))
    if count < bytes.count { pending[host] += bytes[count...] }
  }

  /// Reads acknowledgements, and sends what waits.
  func serve(milliseconds: Int32) {
    for host in pending.indices where !pending[host].isEmpty {
      let bytes = pending[host]
      pending[host] = []
      push(bytes, to: host)
    }
    guard poll(&polled, nfds_t(polled.count), milliseconds) > 0 else { return }
    for host in polled.indices where polled[host].revents != 0 {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let size = recv(sockets[host], &buffer, buffer.count, Int32(MSG_DONTWAIT))
      guard size > 0 else { continue }
      partial[host] += buffer[..<size]
      while let newline = partial[host].firstIndex(of: 0x0a) {
        let text = String(decoding: partial[host][..<newline], as: UTF8.self)
        partial[host].removeSubrange(...newline)
        if text.hasPrefix("{\"acknowledged\":") {
          acknowledged[host] = Int(text.dropFirst(16).dropLast()) ?? acknowledged[host]
        } else {
          FileHandle.standardError.write(Data("the agent says: \(text)\n".utf8))
        }
      }
    }
  }

  /// Twenty frames that no file of this machine has, so that each line costs what an unknown program's does.
  static let unknownFrames = (0..<20).map {
    #"{"module":"/usr/bin/checkout","build_id":"6a52383ed409c6a7000000000000000000000000","offset":"0x\#(String(0x5000 + $0 * 0x91, radix: 16))"}"#
  }.joined(separator: ",")
}
