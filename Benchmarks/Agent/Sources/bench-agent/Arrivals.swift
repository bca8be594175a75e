import Foundation
import Glibc
import Synchronization

/// Follows the agent's file on a thread of its own, and notes when each report can be read there.
final class Arrivals: @unchecked Sendable {
  // @unchecked: the times belong to the thread until it has ended.
  private(set) var times: [UInt64]
  private let path: String
  private let ends = Atomic<Bool>(false)
  private let arrived = Atomic<Int>(0)
  private var thread: Thread?
  private let done = DispatchSemaphore(value: 0)
  private(set) var twice = 0

  init(path: String, capacity: Int) {
    self.path = path
    times = Array(repeating: 0, count: capacity)
    let thread = Thread { [unowned self] in
      follow()
      done.signal()
    }
    thread.start()
    self.thread = thread
  }

  var count: Int { arrived.load(ordering: .relaxed) }

  func stop() {
    ends.store(true, ordering: .relaxed)
    done.wait()
  }

  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  private func follow() {
    var descriptor = open(path, O_RDONLY)
    while descriptor < 0 {
      usleep(1000)
      descriptor = open(path, O_RDONLY)
    }
    let mark = Array("\"id\":\"".utf8)
    var buffer = [UInt8](repeating: 0, count: 4 << 20)
    var rest: [UInt8] = []
    while true {
      let isLast = ends.load(ordering: .relaxed)
      let count = read(descriptor, &buffer, buffer.count)
      guard count > 0 else {
        if isLast { break }
        usleep(200)
        continue
      }
      let now = Self.now()
      rest += buffer[..<count]
      var position = 0
      rest.withUnsafeBufferPointer { bytes in
        while let found = memchr(bytes.baseAddress! + position, 0x0a, bytes.count - position) {
          let end = UnsafeRawPointer(found) - UnsafeRawPointer(bytes.baseAddress!)
          if let id = memmem(bytes.baseAddress! + position, end - position, mark, mark.count) {
            let start = UnsafeRawPointer(id) - UnsafeRawPointer(bytes.baseAddress!) + mark.count
            let number = Int(String(decoding: bytes[(start + 16)..<(start + 32)], as: UTF8.self), radix: 16) ?? -1
            if times.indices.contains(number) {
              if times[number] != 0 { twice += 1 }
              times[number] = now
              arrived.add(1, ordering: .relaxed)
            }
          }
          position = end + 1
        }
      }
      rest.removeFirst(position)
    }
    close(descriptor)
  }
}

@_silgen_name("memmem")
private func memmem(
  _ haystack: UnsafeRawPointer, _ size: Int, _ needle: UnsafeRawPointer, _ length: Int
) -> UnsafeMutableRawPointer?
