/// The names of the types of objects in memory that may be gone, read through the kernel.
///
/// The layouts are those of Swift's ABI (TypeMetadata.rst; include/swift/ABI/Metadata.h) without Objective-C: an object's class, its
/// descriptor, and the descriptors of what the class is declared in.
enum TypeName {
  /// Where a class has its descriptor.
  private static let descriptor: UInt64 = 40
  /// The low bits of a descriptor's flags.
  private static let kindMask: UInt32 = 31
  private static let moduleKind: UInt32 = 0
  private static let extensionKind: UInt32 = 1
  private static let anonymousKind: UInt32 = 2
  private static let longestName = 200
  /// How many declarations are read at most: the class, those around it, and the module.
  private static let depth = 8

  /// Whether names are read rightly, as the type of this object shows.
  ///
  /// The type is not private, because the runtime gives no name for that.
  static func isKnown(of object: UInt64, in process: ProcessHandle) -> Bool {
    guard let pointer = UnsafeRawPointer(bitPattern: UInt(object)) else { return false }
    let type: AnyObject.Type = Swift.type(of: Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue())
    return of(object: object, in: process) == _typeName(type)
  }

  /// The name with its module and the types around it, without generic arguments; nil if no class's object is there.
  static func of(object: UInt64, in process: ProcessHandle) -> String? {
    // The class's first word is 0: that is the kind of a class.
    guard object % 8 == 0, let type = process.load(object, as: UInt64.self), type % 8 == 0,
      process.load(type, as: UInt64.self) == 0, var context = process.load(type &+ descriptor, as: UInt64.self)
    else { return nil }
    var names: [String] = []
    for _ in 0..<depth {
      guard context % 4 == 0, let flags = process.load(context, as: UInt32.self) else { return nil }
      let kind = flags & kindMask
      if kind != anonymousKind && kind != extensionKind {
        guard let name = target(of: context &+ 8, in: process).flatMap({ process.string(at: $0, limit: longestName) }),
          !name.isEmpty
        else { return nil }
        names.insert(name, at: 0)
      }
      if kind == moduleKind { return names.count > 1 ? names.joined(separator: ".") : nil }
      guard let parent = target(of: context &+ 4, in: process, mayBeIndirect: true) else { return nil }
      context = parent
    }
    return nil
  }

  /// What a relative pointer leads to.
  private static func target(of place: UInt64, in process: ProcessHandle, mayBeIndirect: Bool = false) -> UInt64? {
    guard let offset = process.load(place, as: Int32.self), offset != 0 else { return nil }
    let isIndirect = mayBeIndirect && offset & 1 != 0
    let address = place &+ UInt64(bitPattern: Int64(isIndirect ? offset & ~1 : offset))
    return isIndirect ? process.load(address, as: UInt64.self) : address
  }
}
