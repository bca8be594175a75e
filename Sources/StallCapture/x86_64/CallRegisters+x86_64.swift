#if arch(x86_64)
import CUnwind

extension ThreadProbe.BlockedCall {
  /// The number of a call that continues by `restart_syscall`, from the code in front of it: `mov
  /// $number,%eax; syscall`; or from the stack, for a cancellable call of glibc 2.41 and later.
  ///
  /// Nil where the code is another.
  func restartedNumber(in process: ProcessHandle) -> Int64? {
    var (returnsTo, offset) = (UInt64(0), UInt64(0))
    if cunwind_is_cancellable_call(process.cunwind, programCounter, &returnsTo, &offset) {
      return word(at: stackPointer, in: process) == returnsTo ? number(at: offset, in: process) : nil
    }
    return withUnsafeTemporaryAllocation(byteCount: 7, alignment: 8) { code in
      guard programCounter > 7, process.read(programCounter - 7, into: code) == 7, code[5] == 0x0f, code[6] == 0x05
      else { return nil }
      if code[0] == 0xb8 { return Int64(code.loadUnaligned(fromByteOffset: 1, as: Int32.self)) }
      // `mov displacement(%rsp),%rax`, in a process without threads.
      guard code[0] == 0x48, code[1] == 0x8b, code[2] == 0x44, code[3] == 0x24 else { return nil }
      return number(at: UInt64(code[4]), in: process)
    }
  }

  private func number(at offset: UInt64, in process: ProcessHandle) -> Int64? {
    word(at: stackPointer &+ offset, in: process).flatMap { $0 < 1 << 16 ? Int64($0) : nil }
  }

  private func word(at address: UInt64, in process: ProcessHandle) -> UInt64? {
    withUnsafeTemporaryAllocation(byteCount: 8, alignment: 8) { bytes in
      process.read(address, into: bytes) == 8 ? bytes.load(as: UInt64.self) : nil
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
