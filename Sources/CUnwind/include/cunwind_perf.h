// Samples of a running thread by perf events: no signal, no handler, nothing that the thread runs itself.
#ifndef CUNWIND_PERF_H
#define CUNWIND_PERF_H

#include "cunwind_snapshot.h"

/// Whether this process may sample threads of its user by perf events. Opens nothing. False under a seccomp filter of the
/// calling thread's, which may kill for a call that it does not know.
bool cunwind_perf_is_permitted(void);

/// Keeps a disabled event of the calling thread's open until the thread ends, which must have a descriptor table of its own. The kernel
/// patches its scheduler when the first event on a thread is opened, and again one second after the last is closed: without this the
/// next event takes 8 to 16 ms to open. Other threads' context switches cost the same with it and without.
void cunwind_perf_keep_ready(void);

/// An event on one thread of a process. Opened, used and closed by one thread of this process.
typedef struct cunwind_perf {
  int descriptor;
  /// Whether a thread inside a system call is sampled, too.
  bool samples_kernel;
  cunwind_process *process;
  int32_t thread;
  void *pages;
  size_t size;
} cunwind_perf;

/// Opens an event, disabled, about 60 us. While it is open the thread's context switches cost a little more.
/// @return CUNWIND_CAPTURED if it is open.
enum cunwind_capture_result cunwind_perf_open(cunwind_perf *perf, cunwind_process *process, int32_t thread);

/// Asks for one sample, `CUNWIND_PERF_PERIOD_NS` of the thread's processor time from now. @return false if it cannot.
bool cunwind_perf_request(cunwind_perf *perf);
#define CUNWIND_PERF_PERIOD_NS 100000u

/// Waits for the sample and copies it. The caller has claimed the snapshot memory. The stack begins at the stack
/// pointer, and holds 64 KiB at most.
enum cunwind_capture_result cunwind_perf_wait(cunwind_perf *perf, uint64_t timeout_ns, cunwind_snapshot *snapshot);

/// Closes the event.
void cunwind_perf_close(cunwind_perf *perf);

/// What a thread does at the address of a breakpoint.
enum cunwind_breakpoint {
  /// It writes to the aligned word of 8 bytes.
  CUNWIND_BREAKPOINT_WRITE,
  /// It is about to run the instruction.
  CUNWIND_BREAKPOINT_RUN,
};

/// Sets a hardware breakpoint, which the first hit ends (about 10 us of the thread's time).
///
/// The thread notices nothing else; a debugger has one breakpoint less meanwhile.
/// @return a descriptor to close, or -1 if the kernel or the processor refuses.
int cunwind_breakpoint_begin(int32_t thread, uint64_t address, enum cunwind_breakpoint kind);

/// Whether it was hit. True also if the kernel does not say.
bool cunwind_breakpoint_is_hit(int descriptor);

#endif
