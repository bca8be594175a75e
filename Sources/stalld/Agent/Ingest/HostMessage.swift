import StallReport

/// What a process says of itself when it has connected: the value of `hello`.
///
/// It is another user's: of what is in it, only values of the right type are used.
struct HostGreeting: Equatable {
  /// The longest that is read, in bytes: many times what the library sends.
  static let longest = 16 << 10
  static let longestName = 200

  var service: String?
  /// The pid by which the process knows itself, which is another one in another PID namespace.
  var processID: Int?
  /// Lines that wait in the process's spool.
  var spooled = 0
  /// The version of the recovery page that it can use; 0 for none.
  var recoveryVersion = 0

  /// Reads the value of `hello`.
  ///
  /// Throws a fault if it is no JSON, too long, or counts what cannot be.
  init(_ payload: UnsafeBufferPointer<UInt8>) throws(JSONScanner.Fault) {
    guard payload.count <= Self.longest else {
      throw JSONScanner.Fault(reason: "hello is longer than \(Self.longest) bytes", position: 0)
    }
    let json = try JSONText(Array(payload))
    spooled = json.integer(json.root["spooled"]) ?? 0
    guard (0...LineScanner.largestCount).contains(spooled) else {
      throw JSONScanner.Fault(reason: "hello.spooled is not a count", position: 0)
    }
    service = json.string(json.root["service"]?["name"])?.limited(to: Self.longestName)
    processID = json.integer(json.root["process"]?["pid"])
    recoveryVersion = json.integer(json.root["recovery"]) ?? 0
  }
}

/// Whose samples a process hands over: the value of `detail`.
struct DetailHeader: Equatable {
  let stallID: String

  /// Reads the value of `detail`, whose other members are stored as they are.
  ///
  /// Throws a fault if it is no object, or its `id` is not that of a stall. It is read once, and nothing but the id is copied.
  init(_ payload: UnsafeBufferPointer<UInt8>) throws(JSONScanner.Fault) {
    var json = JSONScanner(payload)
    var id: String?
    guard json.current == UInt8(ascii: "{"), try json.beginObject() else { throw Self.fault }
    repeat {
      let key = try json.key()
      let isID = id == nil && json.is(key, "id")
      let value = try json.skipValue()
      // Two quotes and 32 digits.
      if isID, value.count == 34, payload[value.lowerBound] == UInt8(ascii: "\"") {
        id = String(decoding: payload[value].dropFirst().dropLast(), as: UTF8.self)
      }
    } while try json.nextMember()
    try json.end()
    guard let id, Hexadecimal.words(of: id.utf8) != nil else { throw Self.fault }
    stallID = id
  }

  private static let fault = JSONScanner.Fault(reason: "detail.id is not 32 hexadecimal digits", position: 0)
}
