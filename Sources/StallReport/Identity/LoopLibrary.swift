/// A library that runs loops, by the names of its modules and functions.
///
/// ``all`` is the one table of them: whose code a frame is (`HostCode`), where a piece of work ends
/// (`Culprit.callout`) and which frames fold (`FoldRule`) derive from it. Without a row, the frames of a
/// library that a service links statically count as the service's own.
package struct LoopLibrary: Sendable {
  /// The name in "12 frames of SwiftNIO".
  package var name: String
  /// Whose code its frames are.
  package var owner = CodeOwner.runtime
  /// Its modules of Swift: all of their frames are its own, and fold.
  package var modules: [String] = []
  /// Beginnings of functions in C that are its own in a static executable, too.
  package var ownFunctions: [String] = []
  /// Functions that no program can use the library without: `LinkedLibrary.anchors`.
  ///
  /// Empty if nobody else gives functions such names.
  package var anchors: [String] = []
  /// Beginnings of functions that run a loop: what is outside of one is not responsible for what it calls.
  package var loops: [String] = []
  /// Beginnings of functions that call the service: what is outside of one is another piece of work.
  ///
  /// Frames of ``CodeOwner/system`` and ``CodeOwner/monitor`` need none: all of them end a piece of work.
  package var callers: [String] = []
  /// A part of names of functions that call the service.
  package var callerWord: String?
  /// Beginnings of the file names of its shared libraries: all of their frames are its own, and fold.
  package var files: [String] = []
  /// Beginnings of the file names of shared libraries whose frames fold if they have no symbol.
  package var filesWithoutSymbols: [String] = []
  /// Types of Swift, with their modules, whose frames fold where the rest of the module does not.
  package var foldedTypes: [String] = []
  /// Beginnings of functions that fold, apart from ``loops``.
  package var foldedFunctions: [String] = []
  /// Functions that fold, apart from ``loops``, by their whole names.
  package var foldedSymbols: Set<String> = []

  package static let all = [
    LoopLibrary(
      name: "LoopEngine", owner: .monitor, modules: ["LoopEngine"], loops: ["LoopEngine.Loop.run("]),
    LoopLibrary(
      name: "libdispatch", modules: ["Dispatch"],
      ownFunctions: ["dispatch_", "_dispatch_", "__dispatch_", "__DISPATCH_"],
      anchors: ["dispatch_once_f", "dispatch_async_f"],
      loops: [
        "_dispatch_main_queue_callback_4CF", "_dispatch_main_queue_drain", "_dispatch_call_block_and_release",
        "_dispatch_lane_serial_drain", "_dispatch_lane_concurrent_drain", "_dispatch_root_queue_drain",
        "_dispatch_worker_thread",
      ], callers: ["_dispatch_"], files: ["libdispatch.so", "libswiftDispatch.so"],
      foldedFunctions: ["_dispatch_"], foldedSymbols: ["dispatch_main"]),
    LoopLibrary(
      name: "CoreFoundation", modules: ["CoreFoundation"], ownFunctions: ["CF", "_CF", "__CF", "___CF", "____CF"],
      anchors: ["CFRetain", "CFRelease"], loops: ["__CFRunLoopRun", "CFRunLoopRunSpecific"],
      callerWord: "RunLoop", filesWithoutSymbols: ["libFoundation.so"],
      foldedTypes: ["Foundation.RunLoop", "Foundation.Timer"],
      foldedFunctions: ["CFRunLoop", "_CFRunLoop", "__CFRunLoop", "__CFRUNLOOP_IS_"]),
    // A loop of NIO that waits is not responsible, and NIOPosix calls the work. The other modules call
    // one handler from another: that is one piece of work.
    LoopLibrary(
      name: "SwiftNIO", modules: ["NIOCore", "NIOPosix", "NIOConcurrencyHelpers", "_NIODataStructures"],
      ownFunctions: ["CNIOLinux_", "CNIOPosix_"], callers: ["NIOPosix."]),
    LoopLibrary(
      name: "GLib", owner: .system, loops: ["g_main_context_dispatch", "g_main_context_iteration", "g_main_loop_run"],
      files: ["libglib-2.0.so", "libgobject-2.0.so", "libgio-2.0.so"],
      foldedFunctions: ["g_main_context_", "g_main_loop_", "g_closure_invoke", "g_signal_emit"]),
    LoopLibrary(name: "libuv", owner: .system, loops: ["uv_run"], files: ["libuv.so"], foldedFunctions: ["uv__"]),
    LoopLibrary(
      name: "libevent", owner: .system, loops: ["event_base_loop"], files: ["libevent-2.", "libevent_core-2."],
      foldedFunctions: ["event_process_active"], foldedSymbols: ["event_base_dispatch"]),
    LoopLibrary(
      name: "libev", owner: .system, loops: ["ev_run"], files: ["libev.so"], foldedSymbols: ["ev_invoke_pending"]),
  ]

  /// The functions that run a loop of any library, by their beginnings.
  package static let loops = all.flatMap(\.loops)

  private static let callers = all.flatMap(\.callers)
  private static let callerWords = all.compactMap(\.callerWord)

  /// Whether a function that is not the service's own calls what the service has given to a loop.
  static func callsBack(_ symbol: String) -> Bool {
    callers.contains { symbol.hasPrefix($0) } || callerWords.contains { symbol.contains(text: $0) }
  }
}
