#if arch(x86_64)
import CUnwind

extension ThreadProbe.BlockedCall {
  /// The number of a call that continues by `restart_syscall`, from the code in front of it: `mov
  /// $number,%eax; syscall`.
  ///
  /// Nil where the code is another.
  func restartedNumber(in process: any ProcessAccess) -> Int64? {
    withUnsafeTemporaryAllocation(byteCount: 7, alignment: 8) { code in
      guard programCounter > 7, process.read(programCounter - 7, into: code) == 7, code[0] == 0xb8,
        code[5] == 0x0f, code[6] == 0x05
      else { return nil }
      return Int64(code.loadUnaligned(fromByteOffset: 1, as: Int32.self))
    }
  }
}

extension cunwind_snapshot {
  /// Sets the registers that a system call's arguments are in, by their DWARF numbers: rdi, rsi, rdx, r10, r8, r9.
  ///
  /// vfork keeps its return address in rdi.
  mutating func setArguments(of call: ThreadProbe.BlockedCall) {
    let (rdi, rsi, rdx, r10, r8, r9) = call.arguments
    setRegister(5, rdi)
    setRegister(4, rsi)
    setRegister(1, rdx)
    setRegister(10, r10)
    setRegister(8, r8)
    setRegister(9, r9)
  }
}
#endif
