import StallCapture

extension StallMonitorError {
  init(_ failure: OwnThreads.Failure) { self = .noThread(code: failure.code) }
}
