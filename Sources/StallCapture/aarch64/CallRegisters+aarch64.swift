#if arch(arm64)
import CUnwind

extension ThreadProbe.BlockedCall {
  /// How many instructions are read: the call, and those in front of it.
  private static let reach = 12

  /// The number of a call that continues by `restart_syscall`, from the code in front of it: `mov
  /// x8, #number` and, behind other instructions, `svc #0`.
  ///
  /// A cancellable call of glibc 2.41 and later is made by a function that is given the number, and keeps it nowhere. Two of
  /// the calls that continue are made there, and their first arguments differ. Nil where the code is another.
  func restartedNumber(in process: ProcessHandle) -> Int64? {
    withUnsafeTemporaryAllocation(of: UInt32.self, capacity: Self.reach) { code in
      let length = UInt64(4 * Self.reach)
      guard programCounter > length,
        process.read(programCounter - length, into: UnsafeMutableRawBufferPointer(code)) == Int(length),
        code[Self.reach - 1] == 0xd400_0001
      else { return nil }
      if code[..<(Self.reach - 1)].suffix(Self.cancellable.count).elementsEqual(Self.cancellable) {
        return cancellableNumber
      }
      for instruction in code.dropLast().reversed() {
        // A move of 32 or 64 bits.
        if instruction & 0x7fe0_001f == 0x5280_0008 { return Int64(instruction >> 5 & 0xffff) }
        // A branch, or another instruction that writes the register.
        if instruction & 0x1c00_0000 == 0x1400_0000 || instruction & 0x1f == 8 { return nil }
      }
      return nil
    }
  }

  /// In `__syscall_cancel_arch`, in front of `svc #0`: `mov x8, x1`, and the arguments from x2 to x7 to x0 to x5.
  private static let cancellable: [UInt32] = [
    0xaa01_03e8, 0xaa02_03e0, 0xaa03_03e1, 0xaa04_03e2, 0xaa05_03e3, 0xaa06_03e4, 0xaa07_03e5,
  ]

  /// `clock_nanosleep` has the number of a clock, and `futex` an address, and a wait as its operation.
  private var cancellableNumber: Int64? {
    let (clockNanosleep, futex): (Int64, Int64) = (115, 98)
    let (first, operation) = (arguments.0, arguments.1 & 0x7f)
    if first < 16 { return clockNanosleep }
    // FUTEX_WAIT, FUTEX_WAIT_BITSET (linux/futex.h).
    let isWait = operation == 0 || operation == 9
    return isWait && first % 4 == 0 && first >= 65536 ? futex : nil
  }
}

extension cunwind_snapshot {
  /// Sets the registers of a system call's arguments and number: x0 to x5, and x8.
  ///
  /// DWARF gives them the same numbers.
  mutating func setArguments(of call: ThreadProbe.BlockedCall) {
    let (x0, x1, x2, x3, x4, x5) = call.arguments
    setRegister(0, x0)
    setRegister(1, x1)
    setRegister(2, x2)
    setRegister(3, x3)
    setRegister(4, x4)
    setRegister(5, x5)
    setRegister(8, UInt64(bitPattern: call.number))
  }
}
#endif
