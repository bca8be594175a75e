import Foundation
import Glibc
import StallReport
import Testing

@testable import StallCapture
@testable import StallMonitor

/// What has been found out of a place is kept, and belongs to that place's module alone.
struct KnownPlaceTests {
  @Test func placeOfAnotherLibraryIsNamedAgain() throws {
    let fixtures = try SymbolFixtures()
    let capture = ThreadCapture(of: .own)
    let reader = FrameReader(executablePath: ProcessFacts.executablePath())
    let namer = FrameNamer()
    var addresses: Set<UInt64> = []
    // Each is loaded where the one before has been, unless another test takes that place.
    for round in 0..<6 {
      let name = "function_\(round % 2)"
      let library = try fixtures.clang(
        "int \(name)(void) { return 1; }", ["-shared", "-fPIC", "-Wl,--build-id"], name: "lib\(round % 2).so")
      let handle = try #require(dlopen(library, RTLD_NOW | RTLD_LOCAL))
      defer { dlclose(handle) }
      let address = UInt64(UInt(bitPattern: dlsym(handle, name)))
      addresses.insert(address)
      // As the watchdog does between two stalls.
      capture.flush()
      reader.flush()
      let backtrace = Backtrace(frames: [Backtrace.Frame(address: address, isReturnAddress: false)])
      for _ in 0..<2 { #expect(namer.names(of: reader.frames(of: backtrace)).map(\.symbol) == [name]) }
    }
    if addresses.count == 6 { print("no library was loaded where another had been: little is shown") }
  }
}
