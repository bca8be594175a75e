import Dispatch
import GRPCCore
import Synchronization

/// A service with two methods whose handlers block, as handlers do by mistake.
///
/// The code that protoc generates registers methods and codes messages; this example does it by hand, so that it needs no protoc.
struct Catalog: RegistrableRPCService {
  static let service = ServiceDescriptor(package: "shop", service: "Catalog")

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    register("Price", with: &router) { _ in "\(currentPrice())" }
    register("Search", with: &router) { isListOfWords($0) ? "words" : "no words" }
  }

  private func register<Transport: ServerTransport>(
    _ method: String, with router: inout RPCRouter<Transport>, handler: @escaping @Sendable (String) -> String
  ) {
    router.registerHandler(
      forMethod: MethodDescriptor(service: Self.service, method: method), deserializer: TextCoding(),
      serializer: TextCoding()
    ) { stream, _ in
      let request = try await ServerRequest(stream: stream)
      return StreamingServerResponse(single: ServerResponse(message: handler(request.message)))
    }
  }
}

/// Codes a message as its UTF-8.
struct TextCoding: MessageSerializer, MessageDeserializer {
  func serialize<Bytes: GRPCContiguousBytes>(_ message: String) -> Bytes { Bytes(message.utf8) }

  func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) -> String {
    bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
  }
}

// MARK: What the handlers call

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

/// Whether a text has nothing but words and single spaces.
///
/// The mistake: on a text that does not match, such an expression tries each way to divide it into words.
func isListOfWords(_ text: String) -> Bool {
  text.wholeMatch(of: /(\w+\s?)+/) != nil
}
