import CStallMonitor
import StallMonitor

extension StallMonitorConfiguration {
  /// Lays a host's options over the defaults.
  ///
  /// Throws if one cannot be used.
  mutating func apply(_ options: UnsafePointer<stallmonitor_options>) throws(StallMonitorError) {
    // The first member: a host that was built with another header may have less than all of it.
    let size = UnsafeRawPointer(options).load(as: Int.self)
    guard size >= MemoryLayout<stallmonitor_options>.size else {
      throw .invalidConfiguration(key: "size", value: "\(size)", allowed: "sizeof(stallmonitor_options)")
    }
    let options = options.pointee
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
