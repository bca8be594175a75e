// The Swift runtime in libstallmonitor.so handles no signal of the service.

#if defined(__linux__)

int _swift_installCrashHandler(void);

// In the place of the runtime's own (stdlib/public/runtime/CrashHandlerLinux.cpp), which would handle SIGSEGV and six more, and give the thread
// that loads the library a small alternate stack, wherever the runtime finds swift-backtrace: beside the library, or by SWIFT_ROOT. Only the
// runtime's start calls it. 0 says that it was done: otherwise the runtime writes a warning.
int _swift_installCrashHandler(void) { return 0; }

#endif
