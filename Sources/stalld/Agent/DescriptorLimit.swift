import Glibc

/// The number of descriptors that the process may have.
enum DescriptorLimit {
  /// Raises it to the most that is allowed: a connection needs up to three, for its socket, its process (pidfd) and its recovery memory.
  static func raise() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}
