import CStallMonitor
import StallMonitor
import Synchronization

// The functions of `stallmonitor.h`, which documents them. The compiler checks each against its declaration there: see `compareWithHeader`.

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_start")
public func stallmonitor_start(_ options: UnsafePointer<stallmonitor_options>?) -> Int32 {
  keepingErrno { start(options) }
}

private func start(_ options: UnsafePointer<stallmonitor_options>?) -> Int32 {
  do throws(StallMonitorError) {
    var configuration = StallMonitorConfiguration()
    if let options { try configuration.apply(options) }
    guard let home = Home.forStarting() else {
      return keep(
        STALLMONITOR_NOT_WATCHING,
        "the process forked while another thread was starting or stopping the monitor; the child cannot use a monitor")
    }
    return try home.change { monitor throws(StallMonitorError) in
      if monitor?.isWatching == true { return success() }
      let started = try StallMonitor.startWithoutMainLoop(configuration)
      if let reason = started.notWatchingReason { return keep(STALLMONITOR_UNWATCHED, reason) }
      monitor = started
      return success()
    }
  } catch {
    return keep(error)
  }
}

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_stop")
public func stallmonitor_stop() { keepingErrno { Home.ofThisProcess?.stop() } }

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_pause")
public func stallmonitor_pause() { keepingErrno { current?.pause() } }

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_resume")
public func stallmonitor_resume() { keepingErrno { current?.resume() } }

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_is_watching")
public func stallmonitor_is_watching() -> Int32 { keepingErrno { current?.isWatching == true ? 1 : 0 } }

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_loop_create")
public func stallmonitor_loop_create(_ name: UnsafePointer<CChar>?, _ threshold_ms: UInt32) -> OpaquePointer? {
  keepingErrno { createLoop(name, threshold_ms) }
}

private func createLoop(_ name: UnsafePointer<CChar>?, _ threshold_ms: UInt32) -> OpaquePointer? {
  // Typed, and its text asked for by name: a dynamic cast takes kilobytes of a stack that may be small.
  do throws(StallMonitorError) {
    guard let name else {
      throw StallMonitorError(
        .invalidLoop(
          key: "name", value: "NULL", allowed: "\(StallMonitorConfiguration.allowedLoopName.words) bytes of UTF-8"))
    }
    guard let threshold = ThresholdOption(milliseconds: threshold_ms) else {
      throw StallMonitorError(
        .invalidLoop(
          key: "threshold_ms", value: "\(threshold_ms)", allowed: "\(ThresholdOption.words), or 0 for the monitor's own"
        ))
    }
    guard let loop = try current?.watchOwnLoop(name: String(cString: name), threshold: threshold.duration) else {
      _ = keep(
        STALLMONITOR_NOT_WATCHING,
        "the monitor is not running: it was not started yet (call stallmonitor_start() first), the environment disables it, it was stopped, or this process is a fork's child"
      )
      return nil
    }
    _ = success()
    return OpaquePointer(Unmanaged.passRetained(loop).toOpaque())
  } catch {
    _ = keep(error)
    return nil
  }
}

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_loop_busy")
public func stallmonitor_loop_busy(_ loop: OpaquePointer?) {
  guard let loop else { return }
  Unmanaged<OwnLoop>.fromOpaque(UnsafeRawPointer(loop))._withUnsafeGuaranteedRef { $0.busy() }
}

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_loop_idle")
public func stallmonitor_loop_idle(_ loop: OpaquePointer?) {
  guard let loop else { return }
  Unmanaged<OwnLoop>.fromOpaque(UnsafeRawPointer(loop))._withUnsafeGuaranteedRef { $0.idle() }
}

/// See `stallmonitor.h`.
@_cdecl("stallmonitor_loop_destroy")
public func stallmonitor_loop_destroy(_ loop: OpaquePointer?) {
  guard let loop else { return }
  keepingErrno { Unmanaged<OwnLoop>.fromOpaque(UnsafeRawPointer(loop)).takeRetainedValue().end() }
}

private var current: StallMonitor? { Home.ofThisProcess?.monitor }

private func success() -> Int32 {
  cstallmonitor_forget_error()
  return Int32(STALLMONITOR_OK)
}

private func keep(_ code: Int, _ text: String) -> Int32 { cstallmonitor_keep_error(Int32(code), text) }

private func keep(_ error: StallMonitorError) -> Int32 {
  let code =
    switch error.reason {
    case .nameTaken: STALLMONITOR_NAME_TAKEN
    case .noThread: STALLMONITOR_NO_THREAD
    default: STALLMONITOR_INVALID
    }
  // In the service's words.
  if case .invalidConfiguration(let key, let value, let allowed) = error.reason {
    return keep(code, "stallmonitor_options.\(key) is \(value); allowed: \(allowed)")
  }
  return keep(code, error.description)
}

// Compiles only if each function has the type that the header declares. It is never called.
//
// Swift 6.3's `@c @implementation` checks this too; Swift 6.2 does not have it.
private func compareWithHeader() {
  func same<Function>(_: @autoclosure () -> Function, _: @autoclosure () -> Function) {}
  same(StallMonitorC.stallmonitor_start, CStallMonitor.stallmonitor_start)
  same(StallMonitorC.stallmonitor_stop, CStallMonitor.stallmonitor_stop)
  same(StallMonitorC.stallmonitor_pause, CStallMonitor.stallmonitor_pause)
  same(StallMonitorC.stallmonitor_resume, CStallMonitor.stallmonitor_resume)
  same(StallMonitorC.stallmonitor_is_watching, CStallMonitor.stallmonitor_is_watching)
  same(StallMonitorC.stallmonitor_loop_create, CStallMonitor.stallmonitor_loop_create)
  same(StallMonitorC.stallmonitor_loop_busy, CStallMonitor.stallmonitor_loop_busy)
  same(StallMonitorC.stallmonitor_loop_idle, CStallMonitor.stallmonitor_loop_idle)
  same(StallMonitorC.stallmonitor_loop_destroy, CStallMonitor.stallmonitor_loop_destroy)
}
