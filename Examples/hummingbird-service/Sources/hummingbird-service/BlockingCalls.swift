import Dispatch
import Glibc
import Hummingbird
import Synchronization

/// The contents of a file.
///
/// The mistake: `open` and `read` wait for the disk, or for a file server.
func readFile(_ path: String) throws -> String {
  guard let file = fopen(path, "r") else { throw HTTPError(.notFound) }
  defer { fclose(file) }
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 4096)
  while true {
    let count = fread(&buffer, 1, buffer.count, file)
    if count == 0 { return String(decoding: bytes, as: UTF8.self) }
    bytes += buffer[..<count]
  }
}

/// The IPv4 addresses of a host.
///
/// The mistake: `getaddrinfo` waits for the name server.
func addresses(of host: String) throws -> [String] {
  var hints = addrinfo()
  hints.ai_family = AF_INET
  hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
  var first: UnsafeMutablePointer<addrinfo>?
  guard getaddrinfo(host, nil, &hints, &first) == 0 else { throw HTTPError(.notFound) }
  defer { freeaddrinfo(first) }
  return sequence(first: first, next: { $0?.pointee.ai_next }).compactMap { entry in
    guard let entry = entry?.pointee else { return nil }
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    let code = getnameinfo(
      entry.ai_addr, entry.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
    guard code == 0 else { return nil }
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}

/// The price that the price server's client reports.
///
/// The mistake: a semaphore makes a call with a completion handler look like one that returns.
func currentPrice() -> Int {
  let price = Price()
  let isKnown = DispatchSemaphore(value: 0)
  fetchPrice { value in
    price.value.withLock { $0 = value }
    isKnown.signal()
  }
  isKnown.wait()
  return price.value.withLock { $0 }
}

private final class Price: Sendable {
  let value = Mutex(0)
}

/// Takes the place of a client of a slow server: the completion handler is called after 900 ms.
private func fetchPrice(_ completion: @escaping @Sendable (Int) -> Void) {
  DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(900)) { completion(42) }
}

/// Numbered offers, all at the price as it was when the latest thousandth was made.
///
/// The mistake: one request in a thousand waits for the price. It is rare, so nobody meets it while the service is being written.
final class Offers: Sendable {
  private let price = Atomic(42)
  private let count = Atomic(0)

  /// The next offer, as text.
  func next() -> String {
    let number = count.add(1, ordering: .relaxed).newValue
    if number.isMultiple(of: 1000) { price.store(currentPrice(), ordering: .relaxed) }
    return "offer \(number): \(price.load(ordering: .relaxed))"
  }
}

/// Whether a text has nothing but words and single spaces.
///
/// The mistake: on a text that does not match, such an expression tries each way to divide it into words.
func isListOfWords(_ text: String) -> Bool {
  text.wholeMatch(of: /(\w+\s?)+/) != nil
}
