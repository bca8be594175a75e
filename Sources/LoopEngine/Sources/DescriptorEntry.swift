import CLinux

/// A descriptor source, as the loop calls it: 32 bytes.
struct DescriptorEntry: ~Copyable {
  typealias Body = (Loop.DescriptorSource, Loop.DescriptorSource.Readiness) -> Void

  private var body: Body = { _, _ in }
  /// Two addresses, each with half of the descriptor above it; of a vacant entry nothing and the next generation.
  private var sourceAndLowHalf: UInt64 = 0
  private var callSiteAndHighHalf: UInt64 = 0

  private static var addressBits: UInt64 { 48 }
  private static var addressMask: UInt64 { 1 << addressBits - 1 }

  /// Takes in a source.
  ///
  /// - Returns: The number of sources that were here before.
  mutating func occupy(_ source: Loop.DescriptorSource) -> UInt64 {
    let generation = callSiteAndHighHalf
    let descriptor = UInt64(UInt32(bitPattern: source.descriptor))
    body = source.body
    sourceAndLowHalf =
      UInt64(UInt(bitPattern: Unmanaged.passRetained(source).toOpaque())) | descriptor << Self.addressBits
    callSiteAndHighHalf =
      UInt64(UInt(bitPattern: source.callSite)) | (descriptor >> 16) << Self.addressBits
    return generation
  }

  /// Gives back the source, which holds the closure as well.
  mutating func vacate(after generation: UInt64) -> Loop.DescriptorSource? {
    defer {
      body = { _, _ in }
      sourceAndLowHalf = 0
      callSiteAndHighHalf = generation &+ 1
    }
    return reference?.takeRetainedValue()
  }

  var source: Loop.DescriptorSource? { reference?.takeUnretainedValue() }

  @inline(__always)
  private var reference: Unmanaged<Loop.DescriptorSource>? {
    UnsafeRawPointer(bitPattern: UInt(sourceAndLowHalf & Self.addressMask)).map { Unmanaged.fromOpaque($0) }
  }

  @inline(__always)
  var callSite: CallSite {
    UnsafePointer<CallSite>(bitPattern: UInt(callSiteAndHighHalf & Self.addressMask))!.pointee
  }

  /// What the source finds out about itself during its call.
  @inline(__always)
  var callee: clinux_loop_callee_t {
    let descriptor = sourceAndLowHalf >> Self.addressBits | (callSiteAndHighHalf >> Self.addressBits) << 16
    return clinux_loop_callee_t(
      source: UnsafeRawPointer(bitPattern: UInt(sourceAndLowHalf & Self.addressMask)),
      descriptor: Int32(truncatingIfNeeded: descriptor))
  }

  /// Calls the source; no reference is counted.
  @inline(__always)
  func call(_ readiness: Loop.DescriptorSource.Readiness) {
    reference!._withUnsafeGuaranteedRef { body($0, readiness) }
  }
}
