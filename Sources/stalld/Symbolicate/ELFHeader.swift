import DescriptorIO
import Glibc

/// The beginning of an ELF file: what kind of file it is, for which processor, and whether it is whole.
struct ELFHeader {
  /// `Elf64_Ehdr`; its first 20 bytes are the same in a file of any architecture.
  private static let length = 64
  private static let commonLength = 20
  private static let coreDump: UInt16 = 4

  private let bytes: [UInt8]
  private let fileLength: UInt64

  /// Reads a file's header; nil if it is not an ELF file.
  ///
  /// - Throws: If it cannot be read.
  init?(_ path: String) throws(SystemError) {
    // A FIFO of that name must not block the command.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard file >= 0 else { throw SystemError(code: errno) }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: Self.length)
    var status = stat()
    let count = pread(file, &bytes, bytes.count, 0)
    guard count >= Self.commonLength, fstat(file, &status) == 0, bytes.starts(with: [0x7f, 0x45, 0x4c, 0x46]),
      (1...2).contains(bytes[4]), (1...2).contains(bytes[5])
    else { return nil }
    self.bytes = bytes
    fileLength = UInt64(status.st_size)
  }

  /// Whether the file ends before its tables of segments and sections do.
  ///
  /// Only of a file of this command's architecture.
  var isCutOff: Bool {
    // `e_phoff`, `e_phentsize` and `e_phnum`; the same of the sections, which linkers write last.
    func ends(_ place: Int, _ size: Int, _ count: Int) -> Bool {
      let start = (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[place + $1]) << (8 * UInt64($1)) }
      let (end, isTooFar) = start.addingReportingOverflow(UInt64(number(at: size)) * UInt64(number(at: count)))
      return !isTooFar && end <= fileLength
    }
    return fileLength < UInt64(Self.length) || !ends(32, 54, 56) || !ends(40, 58, 60)
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
    case 8: "mips"
    case 21: "ppc64"
    case 22: "s390x"
    case 40: "arm"
    case 62: is64Bit ? "x86_64" : "x32"
    case 183: isLittleEndian ? "aarch64" : "aarch64_be"
    case 243: "riscv"
    case 258: "loongarch"
    default: "ELF machine \(machine)"
    }
  }

  private func number(at offset: Int) -> UInt16 {
    let (first, second) = (UInt16(bytes[offset]), UInt16(bytes[offset + 1]))
    return bytes[5] == 2 ? first << 8 | second : second << 8 | first
  }
}
