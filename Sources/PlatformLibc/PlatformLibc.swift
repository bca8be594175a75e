// The C library of the platform, under one name. @_exported has no official form yet; without it,
// each file that calls the C library would have these conditions.
#if canImport(Glibc)
@_exported import Glibc
#elseif canImport(Musl)
@_exported import Musl

// glibc declares these constants as enumerators of named types, and musl as macros.
package typealias __socket_type = Int32
package typealias __rlimit_resource_t = Int32

extension Int32 {
  package var rawValue: UInt32 { UInt32(bitPattern: self) }
}
#endif
