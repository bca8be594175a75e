/// The names by which this package's own frames are known, also in an executable that links it statically.
///
/// A test compares them with the table of targets in ARCHITECTURE.md and with the packages of `Integrations`.
package enum MonitorCode {
  /// Its modules of Swift, with those of the packages of `Integrations`.
  package static let modules: Set<Substring> = [
    "DescriptorIO", "LoopEngine", "PlatformLibc", "StallCapture", "StallDetection", "StallMonitor", "StallMonitorC",
    "StallMonitorNIO",
    "StallNaming", "StallReport", "TurnSource",
  ]
  /// Prefixes of its functions in C; each target has one.
  package static let functions = ["clinux_", "csymbols_", "cunwind_", "stallmonitor_"]
}
