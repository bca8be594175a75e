import PlatformLibc

/// Runs work on a thread of the service, and leaves `errno` as it was.
///
/// The service may read it after the call of its own that set it.
package func keepingErrno<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
  let kept = errno
  defer { errno = kept }
  return try body()
}
