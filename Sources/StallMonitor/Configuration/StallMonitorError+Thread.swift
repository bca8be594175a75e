import StallCapture

extension StallMonitorError {
  init(_ failure: OwnThreads.Failure) { self.init(.noThread(code: failure.code)) }
}
