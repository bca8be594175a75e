import Glibc

/// Admits all signals but SIGCHLD on the calling thread, for calls that a signal would end.
///
/// A thread inherits what its maker blocks. Other tests start programs on threads that block
/// SIGCHLD, and the kernel then sends it to any other thread of the process.
public func admitSignals() {
  var blocked = sigset_t()
  sigemptyset(&blocked)
  sigaddset(&blocked, SIGCHLD)
  pthread_sigmask(SIG_SETMASK, &blocked, nil)
}
