import StallReport

/// What the watchdog's thread works with.
///
/// Made on that thread and used by it alone, since its files lie in that thread's descriptor table.
struct WatchdogContext {
  var origin: Report.Origin
  var configuration: StallMonitorConfiguration
  var sink: any ReportSink
  var publisher: ReportPublisher
  var capture: ThreadCapture
  var resolver: FrameResolver
  var recorder: FatalRecorder?
  var actions: ActionPlan
  var serviceManager: ServiceManagerWatchdog?
  var tunings: TuningBox
  /// What all loops share by which they are overlooked.
  var suspension: Suspension
  /// Carries messages and numbers to the service's log and metrics.
  var courier: TelemetryCourier?
  /// Calls the service's closures.
  var actionCourier: Courier?
  var recovery: RecoveryPage?
}
