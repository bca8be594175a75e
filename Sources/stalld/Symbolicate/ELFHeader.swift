import Glibc

/// The beginning of an ELF file: what kind of file it is, and for which processor.
struct ELFHeader {
  /// The first fields of `Elf64_Ehdr`, as they are in a file of any architecture.
  private static let length = 20
  private static let coreDump: UInt16 = 4

  private let bytes: [UInt8]

  /// Reads a file's header; nil if it cannot be read, or is not an ELF file.
  init?(_ path: String) {
    // A FIFO of that name must not block the command.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: Self.length)
    guard pread(file, &bytes, bytes.count, 0) == bytes.count, bytes.starts(with: [0x7f, 0x45, 0x4c, 0x46]) else {
      return nil
    }
    self.bytes = bytes
  }

  /// Whether the file is a core dump.
  var isCoreDump: Bool { number(at: 16) == Self.coreDump }

  /// The name of the file's architecture; nil if it is that of this command.
  var otherArchitecture: String? {
    #if arch(x86_64)
    let own: UInt16 = 62
    #elseif arch(arm64)
    let own: UInt16 = 183
    #else
    let own: UInt16 = 0
    #endif
    let (machine, is64Bit, isLittleEndian) = (number(at: 18), bytes[4] == 2, bytes[5] == 1)
    guard machine != own || !is64Bit || !isLittleEndian else { return nil }
    // Numbers of the System V ABI (`e_machine`).
    return switch machine {
    case 3: "i386"
    case 21: "ppc64"
    case 22: "s390x"
    case 40: "arm"
    case 62: is64Bit ? "x86_64" : "x32"
    case 183: isLittleEndian ? "aarch64" : "aarch64_be"
    case 243: "riscv"
    default: "ELF machine \(machine)"
    }
  }

  private func number(at offset: Int) -> UInt16 {
    let (first, second) = (UInt16(bytes[offset]), UInt16(bytes[offset + 1]))
    return bytes[5] == 2 ? first << 8 | second : second << 8 | first
  }
}
