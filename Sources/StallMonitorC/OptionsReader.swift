import CStallMonitor
import StallMonitor

extension StallMonitorConfiguration {
  /// Lays a service's options over the defaults.
  ///
  /// Throws if one cannot be used.
  mutating func apply(_ options: UnsafePointer<stallmonitor_options>) throws(StallMonitorError) {
    // The first member: a service that was built with another header may have less than all of it.
    let size = UnsafeRawPointer(options).load(as: Int.self)
    guard size >= MemoryLayout<Int>.size else {
      throw StallMonitorError(
        .invalidConfiguration(key: "size", value: "\(size)", allowed: "sizeof(stallmonitor_options)"))
    }
    let options = stallmonitor_options(options, size: size)
    guard let threshold = ThresholdOption(milliseconds: options.threshold_ms) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "threshold_ms", value: "\(options.threshold_ms)",
          allowed: "\(ThresholdOption.words), or 0 for the default"
        ))
    }
    if let duration = threshold.duration { self.threshold = duration }
    if let text = options.sink.map({ String(cString: $0) }) {
      guard let read = StallMonitorConfiguration.Sink(text) else {
        throw StallMonitorError(
          .invalidConfiguration(
            key: "sink", value: "\"\(text)\"", allowed: MonitorSetting.sink.allowed))
      }
      sink = read
    }
    serviceName = options.service_name.map { String(cString: $0) }
    serviceVersion = options.service_version.map { String(cString: $0) }
    stateDirectory = options.state_directory.map { String(cString: $0) }
    guard stateDirectory?.hasPrefix("/") != false else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "state_directory", value: "\"\(stateDirectory ?? "")\"", allowed: MonitorSetting.stateDirectory.allowed))
    }
  }
}

/// A threshold as hosts in C give it: a number of milliseconds, or 0 for none of its own.
struct ThresholdOption {
  /// What a number other than 0 may be.
  static var words: String { StallMonitorConfiguration.allowedThreshold.milliseconds.words }

  /// Nil for 0.
  let duration: Duration?

  /// Nil if the number is not allowed.
  init?(milliseconds: UInt32) {
    let allowed = StallMonitorConfiguration.allowedThreshold.milliseconds
    guard milliseconds == 0 || allowed.contains(Int(milliseconds)) else { return nil }
    duration = milliseconds == 0 ? nil : .milliseconds(Int64(milliseconds))
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
