import Foundation
import TestSupport
import Testing

/// What hosts in C are shown: documentation, headers and examples.
struct ExamplesInCTests {
  /// A threshold in code is not changed by the agent's settings, and operators do not find out why.
  @Test func noExampleTakesTheThresholdFromTheOperator() throws {
    let files = [
      "README.md", "Documentation/CServices.md", "Documentation/GettingStarted/CService.md",
      "Sources/CStallMonitor/include/stallmonitor.h", "Sources/CStallMonitor/include/stallmonitor_uv.h",
      "Sources/CStallMonitor/include/stallmonitor_glib.h", "Examples/libuv-service/service.c",
      "Examples/glib-service/service.c",
    ]
    for file in files {
      let text = try String(contentsOf: Repository.root.appending(path: file), encoding: .utf8)
      let calls = text.matches(of: /(?:loop_create|uv_start|glib_start)\([^)]*"requests", ([0-9]+)\)/)
      #expect(!calls.isEmpty, "\(file)")
      for call in calls { #expect(call.1 == "0", "\(file): \(call.0)") }
      #expect(!text.contains(".threshold_ms ="), "\(file)")
    }
  }
}
