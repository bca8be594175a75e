// A copy of a thread's registers and stack, and the signal handler that takes one of a running thread.
#ifndef CUNWIND_SNAPSHOT_H
#define CUNWIND_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Registers by their DWARF number (System V ABI, AMD64 supplement, figure 3.36): 6 is RBP, 7 is RSP, 16 is RIP.
#define CUNWIND_REGISTERS 17
#define CUNWIND_RBP 6
#define CUNWIND_RSP 7
#define CUNWIND_RIP 16

/// The bytes kept of a stack, from 128 below the stack pointer (the red zone) upwards. Frames further out are read
/// from live memory, and the backtrace says so (`read_live`).
#define CUNWIND_STACK_CAPACITY (512u * 1024u)

/// A stopped moment of one thread.
typedef struct cunwind_snapshot {
  uint64_t registers[CUNWIND_REGISTERS];
  /// Bit n: register n is known.
  uint32_t known;
  uint32_t reserved;
  /// Address of the first byte in `stack`, and how many follow.
  uint64_t stack_address;
  uint64_t stack_length;
  unsigned char *stack;
} cunwind_snapshot;

/// Claims the process's one snapshot memory: from before a capture until its stack has been unwound.
/// @return false while somebody else has it.
bool cunwind_snapshot_claim(void);

/// Gives the snapshot memory back.
void cunwind_snapshot_release(void);

/// Chooses a free real-time signal (the highest whose disposition is the default) and installs the copying handler.
/// Call it before each capture: as long as the handler is still in place it answers the same and costs one system call.
/// It stays for the life of the process: a signal that is still on its way would end the process under the default
/// disposition. @return the signal, or a negative errno value.
int cunwind_handler_install(void);

/// Makes the calling thread ready to be captured while it runs. Call it once on each watched thread, after
/// `cunwind_handler_install`.
///
/// The bounds of its stack are kept, so that its copy is made without the kernel's help. It gets an alternate signal
/// stack for the rest of its life if it has none: captured with nearly no stack left, it would not survive the handler
/// otherwise. And it unblocks the capture signal, which nobody else uses.
void cunwind_prepare_thread(void);

/// Takes back the alternate stack that the calling thread, which is about to end, was given.
void cunwind_thread_ends(void);

enum cunwind_capture_result {
  CUNWIND_CAPTURED = 0,
  /// The thread did not run the handler in time.
  CUNWIND_CAPTURE_TIMED_OUT = 1,
  /// The signal could not be sent: the thread has ended.
  CUNWIND_CAPTURE_NO_THREAD = 2,
  /// A handler of an earlier, abandoned capture is still copying.
  CUNWIND_CAPTURE_BUSY = 3,
  /// No handler is installed.
  CUNWIND_CAPTURE_UNSUPPORTED = 4,
  /// The kernel would not send the signal: too many are pending (RLIMIT_SIGPENDING), or a filter forbids it.
  CUNWIND_CAPTURE_REFUSED = 5,
};

/// Sends one signal to `thread` and waits for its handler to have copied registers and stack.
///
/// The caller has claimed the snapshot memory. Async-signal-safe on the target's side: no lock, no allocation, and no
/// system call while the stack lies within the given bounds; otherwise one that reads memory.
/// @param stack_highest the end of the thread's stack; 0 if unknown.
/// @param timeout_ns how long to wait for the handler.
enum cunwind_capture_result cunwind_capture_by_signal(int32_t thread, uint64_t stack_highest, uint64_t timeout_ns,
                                                      cunwind_snapshot *snapshot);

/// The same by SIGPROF, whose handler is put in place for this one capture: for threads that block every other signal, as
/// libdispatch's workers do. Only while the host leaves that signal alone: default disposition, no profiling timer.
///
/// If the thread does not answer in time the handler stays. Used by one thread at a time.
enum cunwind_capture_result cunwind_capture_by_borrowed_signal(int32_t thread, uint64_t stack_highest,
                                                               uint64_t timeout_ns, cunwind_snapshot *snapshot);

/// Prepares a snapshot whose stack is read by the caller's thread from a thread that stands still in the kernel. The
/// caller has claimed the snapshot memory. Of a stack whose end is unknown only the innermost 64 KiB are copied: what
/// lies beyond its end is somebody else's, and may be slow to read. @return false if an abandoned handler still copies
/// into it.
bool cunwind_snapshot_read(uint64_t stack_pointer, uint64_t stack_highest, cunwind_snapshot *snapshot);

/// Whether a signal has made a system call end early, which the handler then lets begin again.
///
/// For a signal that meets a thread which had just blocked: the kernel makes some calls fail with EINTR whatever
/// SA_RESTART says. If RAX is -EINTR and the instructions before RIP are `mov $number,%eax; syscall`, going on at the
/// `mov` repeats the call. Not so for `close`, which has done its work by then. Exposed for tests. `code` holds the 7
/// bytes before RIP.
bool cunwind_is_interrupted_syscall(uint64_t rax, const unsigned char code[7]);

#endif
