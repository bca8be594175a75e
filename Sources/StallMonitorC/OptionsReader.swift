import CStallMonitor
import StallMonitor

extension StallMonitorConfiguration {
  /// Lays a host's options over the defaults.
  ///
  /// Throws if one cannot be used.
  mutating func apply(_ options: UnsafePointer<stallmonitor_options>) throws(StallMonitorError) {
    // The first member: a host that was built with another header may have less than all of it.
    let size = UnsafeRawPointer(options).load(as: Int.self)
    guard size >= MemoryLayout<Int>.size else {
      throw .invalidConfiguration(key: "size", value: "\(size)", allowed: "sizeof(stallmonitor_options)")
    }
    let options = stallmonitor_options(options, size: size)
    guard options.threshold_ms <= 3_600_000 else {
      throw .invalidConfiguration(
        key: "threshold_ms", value: "\(options.threshold_ms)", allowed: "1 to 3600000, or 0 for the default")
    }
    if options.threshold_ms != 0 { threshold = .milliseconds(Int64(options.threshold_ms)) }
    if let text = options.sink.map({ String(cString: $0) }) {
      guard let read = StallMonitorConfiguration.Sink(text) else {
        throw .invalidConfiguration(
          key: "sink", value: "\"\(text)\"",
          allowed: "\"stdout\", \"file:PATH\" or \"agent:PATH\" with an absolute path")
      }
      sink = read
    }
    serviceName = options.service_name.map { String(cString: $0) }
    serviceVersion = options.service_version.map { String(cString: $0) }
    stateDirectory = options.state_directory.map { String(cString: $0) }
    guard stateDirectory?.hasPrefix("/") != false else {
      throw .invalidConfiguration(
        key: "state_directory", value: "\"\(stateDirectory ?? "")\"", allowed: "an absolute path")
    }
  }
}

extension stallmonitor_options {
  /// The members that lie within `size` bytes; the others are 0.
  fileprivate init(_ options: UnsafePointer<stallmonitor_options>, size: Int) {
    self.init()
    let start = UnsafeRawPointer(options)
    func member<Value: BitwiseCopyable>(_ path: WritableKeyPath<stallmonitor_options, Value>) -> Value? {
      guard let offset = MemoryLayout<Self>.offset(of: path), offset + MemoryLayout<Value>.size <= size else {
        return nil
      }
      return start.load(fromByteOffset: offset, as: Value.self)
    }
    threshold_ms = member(\.threshold_ms) ?? 0
    sink = member(\.sink) ?? nil
    service_name = member(\.service_name) ?? nil
    service_version = member(\.service_version) ?? nil
    state_directory = member(\.state_directory) ?? nil
  }
}
