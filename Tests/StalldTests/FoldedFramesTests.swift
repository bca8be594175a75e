import Foundation
import TestSupport
import Testing

@testable import StallReport
@testable import stalld

/// Which frames of a stack a person does not see at first.
@Suite struct FoldedFramesTests {
  typealias Frame = (symbol: String, module: String)

  static let libc = "/lib/x86_64-linux-gnu/libc.so.6"
  static let service = "/usr/bin/web"
  static let loop: [Frame] = [
    ("closure #1 (LoopEngine.Loop.Timer) -> () in LoopEngine.Loop.fireTimers(LoopEngine.ModeState) -> ()", service),
    ("LoopEngine.Loop.(pass in _65708743483CBF2F15D1CFE2EBEC86AA)(_: LoopEngine.ModeState) -> ()", service),
    ("LoopEngine.Loop.run() -> LoopEngine.Loop.RunResult", service),
  ]
  static let start: [Frame] = [("", libc), ("__libc_start_main", libc), ("_start", service)]

  static func folds(_ stack: [Frame], culprit: String? = nil) -> [String] {
    FoldedFrames.inside(stack, responsible: culprit).map { "\($0.range.lowerBound): \($0.text)" }
  }

  static func own(_ name: String) -> Frame { ("web.\(name)() -> ()", service) }

  @Test func theLoopAndTheStartOfTheProcessFold() {
    let stack = [("usleep", Self.libc), Self.own("wait")] + Self.loop + [("web_main", Self.service)] + Self.start
    #expect(Self.folds(stack) == ["2: 3 frames of LoopEngine", "6: 3 frames of the C library"])
  }

  /// What ends the search for a responsible function is not what a person looks for.
  @Test func functionsThatRunALoopFold() {
    for symbol in LoopLibrary.loops where symbol.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" }) {
      #expect(FoldRule.rule(symbol: symbol, module: Self.service) != nil, "\(symbol)")
    }
  }

  /// A module of a loop's library folds, and so does one of the monitor's.
  @Test func modulesOfLoopsAndOfTheMonitorFold() {
    for library in LoopLibrary.all {
      for module in library.modules {
        #expect(FoldRule.rule(symbol: "\(module).f() -> ()", module: Self.service)?.name == library.name, "\(module)")
      }
    }
    for module in MonitorCode.modules where module != "LoopEngine" {
      #expect(FoldRule.rule(symbol: "\(module).f() -> ()", module: Self.service)?.name == "StallMonitor", "\(module)")
    }
  }

  /// As libraries of the system report them: the frames of a real service on each of them.
  static let hosts: [([Frame], String)] = [
    (
      [
        ("_dispatch_continuation_pop", "libdispatch.so"), ("_dispatch_worker_thread", "/x/libdispatch.so"), ("", libc),
      ], "3 frames of libdispatch and the C library"
    ),
    (
      [
        ("reabstraction thunk helper from () -> () to () -> ()", service), ("swift_job_run", service),
        ("clinux_run_job", service), ("start_thread", libc),
      ], "4 frames of thunks, Swift concurrency, StallMonitor and the C library"
    ),
    (
      [
        ("@objc Foundation.__NSFireTimer(_: ()) -> ()", "/x/libFoundation.so"),
        ("__CFRunLoopRun", "/x/libFoundation.so"),
        ("", "/x/libFoundation.so"), ("Foundation.RunLoop.run(mode: Foundation.RunLoop.Mode) -> Swift.Bool", service),
      ], "4 frames of thunks and CoreFoundation"
    ),
    ([("g_main_dispatch", "/lib/libglib-2.0.so.0"), ("g_main_loop_run", "/lib/libglib-2.0.so.0")], "2 frames of GLib"),
    ([("uv__io_poll", service), ("uv_run", service)], "2 frames of libuv"),
    ([("", "/lib/libevent-2.1.so.7"), ("event_base_loop", "/lib/libevent-2.1.so.7")], "2 frames of libevent"),
    ([("ev_invoke_pending", service), ("ev_run", service)], "2 frames of libev"),
    (
      [
        ("NIOPosix.SelectableEventLoop.run() throws -> ()", service),
        ("closure #1 () -> () in NIOPosix.SelectableEventLoop.runLoop() -> ()", service),
      ], "2 frames of SwiftNIO"
    ),
  ]

  @Test(arguments: hosts.indices) func framesOfEachLoopFold(_ index: Int) {
    let (frames, text) = Self.hosts[index]
    #expect(Self.folds([Self.own("work")] + frames + [("main", Self.service)]) == ["1: " + text])
  }

  /// What the service's code called shows what it waited for.
  @Test func whatTheServiceCalledStays() {
    let waiting: [Frame] = [
      ("__libc_start_main", Self.libc), ("_dispatch_sema4_wait", "libdispatch.so"), ("uv_run", "libuv.so.1"),
    ]
    #expect(Self.folds(waiting + [Self.own("wait"), ("main", Self.service)]) == [])
    // But no thunks.
    let thunks: [Frame] = [
      ("protocol witness for A.f() -> () in conformance B : A in B", Self.service),
      ("reabstraction thunk helper from () -> () to () -> ()", Self.service),
    ]
    #expect(Self.folds(waiting + thunks + [Self.own("wait")]) == ["3: 2 frames of thunks"])
  }

  @Test func theResponsibleFunctionAndTheServicesOwnFramesStay() {
    let stack = [Self.own("inner")] + Self.loop + [Self.own("outer")] + Self.loop
    #expect(Self.folds(stack) == ["1: 3 frames of LoopEngine", "5: 3 frames of LoopEngine"])
    let culprit = Self.loop[1].symbol
    #expect(Self.folds([Self.own("inner")] + Self.loop + Self.loop, culprit: culprit) == ["3: 4 frames of LoopEngine"])
    // Names that only begin like those of a loop, or take its types.
    let alike: [Frame] = [
      ("LoopEngineTools.run() -> ()", Self.service), ("web.start(LoopEngine.Loop) -> ()", Self.service),
      ("uv_running", Self.service), ("Found.use(Foundation.RunLoop.Mode) -> ()", Self.service), ("", Self.service),
    ]
    #expect(Self.folds([Self.own("inner")] + alike) == [])
  }

  @Test func aSingleFrameStaysAndSoDoesAWholeStack() {
    #expect(Self.folds([Self.own("work"), Self.loop[0], Self.own("main")]) == [])
    #expect(Self.folds(Self.loop + Self.start) == [])
    #expect(Self.folds([]) == [])
    let thunk: Frame = ("reabstraction thunk helper from () -> () to () -> ()", Self.service)
    #expect(Self.folds([thunk, thunk]) == [])
  }

  @Test func namesThatWouldBeTheSameStayWhole() {
    let names = ShortNames(["web.f(Swift.Int) -> ()", "web.f(Swift.String) -> ()", "web.g() -> ()"])
    #expect(names["web.f(Swift.Int) -> ()"] == "web.f(Swift.Int) -> ()")
    #expect(names["web.g() -> ()"] == "g()")
    #expect(names["other"] == "other")
  }

  @Test func aCallTreeFoldsWhatIsAboveTheServicesCode() {
    func node(_ parent: Int, _ frame: Frame) -> DetailTrees.Node {
      DetailTrees.Node(
        parent: parent, milliseconds: 1, symbol: frame.symbol, file: "", line: 0, module: frame.module,
        isInlined: false, isAsync: false, name: frame.symbol)
    }
    let nodes = [
      node(-1, Self.start[2]), node(0, Self.loop[2]), node(1, Self.own("work")), node(2, Self.loop[2]),
      node(1, Self.loop[1]),
    ]
    #expect(DetailTrees.origins(of: nodes) == ["the C library", "LoopEngine", "", "", ""])
  }
}
