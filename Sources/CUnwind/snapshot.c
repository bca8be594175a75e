#define _GNU_SOURCE
#include "cunwind_snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "cunwind_memory.h"

#define RED_ZONE 128u
#define PAGE 4096u
// A stack pointer further from the stack's end than this is on some other stack (a coroutine, a signal stack).
#define STACK_REACH (64u << 20)
// What is copied of a stack whose end is not known.
#define UNKNOWN_STACK (64u << 10)
#define ALTERNATE_STACK_SIZE (64u * 1024u)

bool cunwind_is_interrupted_syscall(uint64_t rax, const unsigned char code[7]) {
  if (rax != (uint64_t)-EINTR || code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05) return false;
  int32_t number;
  memcpy(&number, code + 1, sizeof number);
  // close has let go of its descriptor before it fails with EINTR: repeated, it would close what another thread has
  // opened.
  return number != SYS_close && number != SYS_close_range;
}

// One slot, never freed: a handler that runs after its waiter gave up finds another generation and leaves.
// `state` is the generation in the high bits and the stage in the low two.
enum stage { FREE = 0, REQUESTED = 1, COPYING = 2, COPIED = 3 };
static struct {
  _Atomic uint64_t state;
  uint64_t stack_highest;
  cunwind_snapshot snapshot;
} slot;
static _Alignas(PAGE) unsigned char stack_copy[CUNWIND_STACK_CAPACITY];
static _Atomic int capture_signal;

// The stack of a thread that has been prepared. It is mapped from its stack pointer, and from `mapped`, upwards, so the
// handler need not ask the kernel, which would make the thread wait for whoever maps memory at that moment.
static __thread struct {
  uint64_t lowest, end, mapped;
  // The alternate stack that it was given, with its guard page, or NULL.
  char *alternate;
} own_stack __attribute__((tls_model("initial-exec")));
// The process that has claimed the slot, or 0.
static _Atomic pid_t claimed;

bool cunwind_snapshot_claim(void) {
  pid_t self = getpid(), owner = 0;
  if (atomic_compare_exchange_strong(&claimed, &owner, self)) return true;
  // In the child of a fork, the threads that had it and copied into it are gone.
  if (owner == self || !atomic_compare_exchange_strong(&claimed, &owner, self)) return false;
  atomic_store(&slot.state, ((atomic_load(&slot.state) >> 2) + 1) << 2 | FREE);
  return true;
}

void cunwind_snapshot_release(void) { atomic_store(&claimed, 0); }

#if defined(__x86_64__)

// A copy that no interposer or sanitizer sees.
static void raw_copy(void *to, uint64_t from, size_t length) {
  const void *source = (const void *)(uintptr_t)from;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(source), "+c"(length) : : "memory");
}

static const int dwarf_to_greg[CUNWIND_REGISTERS] = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

__attribute__((no_sanitize("address", "thread"))) static void copy_handler(int number, siginfo_t *info, void *context) {
  (void)number;
  const ucontext_t *interrupted = context;
  greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
  // Whoever sent it, and however late it comes: the interrupted call must not notice.
  if ((uint64_t)gregs[REG_RAX] == (uint64_t)-EINTR) {
    unsigned char code[7];
    if (cunwind_read_raw((uint64_t)gregs[REG_RIP] - 7, code, sizeof code) == sizeof code &&
        cunwind_is_interrupted_syscall((uint64_t)gregs[REG_RAX], code))
      gregs[REG_RIP] -= 7;
  }
  if (info->si_code != SI_QUEUE) return;
  uint64_t generation = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
  uint64_t expected = generation << 2 | REQUESTED;
  if (!atomic_compare_exchange_strong(&slot.state, &expected, generation << 2 | COPYING)) return;

  cunwind_snapshot *snapshot = &slot.snapshot;
  for (int i = 0; i < CUNWIND_REGISTERS; i++) snapshot->registers[i] = (uint64_t)gregs[dwarf_to_greg[i]];
  snapshot->known = (1u << CUNWIND_REGISTERS) - 1;
  uint64_t sp = snapshot->registers[CUNWIND_RSP], from = sp - RED_ZONE, end = slot.stack_highest;
  bool is_own = sp >= own_stack.lowest && sp < own_stack.end;
  if (is_own && (end <= sp || end > own_stack.end)) end = own_stack.end;
  snapshot->stack_address = from;
  if (is_own || (sp < end && end - sp < STACK_REACH)) {
    size_t length = end - from < CUNWIND_STACK_CAPACITY ? end - from : CUNWIND_STACK_CAPACITY;
    size_t below = 0;
    // The page below the stack pointer's may be the guard page: look at it through the kernel, once.
    bool is_known = is_own && from >= own_stack.mapped;
    if (!is_known && (from & ~(uint64_t)(PAGE - 1)) != (sp & ~(uint64_t)(PAGE - 1))) {
      below = RED_ZONE;
      if (cunwind_read_raw(from, stack_copy, below) != (long)below)
        for (size_t i = 0; i < below; i++) stack_copy[i] = 0;
      else if (is_own)
        own_stack.mapped = from & ~(uint64_t)(PAGE - 1);
    }
    raw_copy(stack_copy + below, from + below, length - below);
    snapshot->stack_length = length;
  } else {
    // Another thread's stack, or an unknown one: the kernel checks each page. What lies beyond its end is somebody
    // else's, and may be slow to read. The end is that of the alternate stack, or the thread's control block, which
    // glibc keeps at the end of the stack.
    uint64_t control_block, alternate = (uint64_t)(uintptr_t)interrupted->uc_stack.ss_sp;
    __asm__("mov %%fs:0, %0" : "=r"(control_block));
    if (sp >= alternate && sp - alternate < interrupted->uc_stack.ss_size)
      end = alternate + interrupted->uc_stack.ss_size;
    else if (sp < control_block && control_block - sp < STACK_REACH)
      end = control_block;
    else
      end = sp + UNKNOWN_STACK;
    size_t wanted = end - from < CUNWIND_STACK_CAPACITY ? end - from : CUNWIND_STACK_CAPACITY;
    long length = cunwind_read_raw(from, stack_copy, wanted);
    if (length <= (long)RED_ZONE) {
      // The red zone begins in the guard page.
      snapshot->stack_address = sp;
      length = cunwind_read_raw(sp, stack_copy, wanted - RED_ZONE);
    }
    snapshot->stack_length = length > 0 ? (uint64_t)length : 0;
  }
  snapshot->stack = stack_copy;
  atomic_store(&slot.state, generation << 2 | COPIED);
}

#endif

#if defined(__x86_64__)

static bool is_installed(int number) {
  struct sigaction current;
  return number > 0 && sigaction(number, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
         current.sa_sigaction == copy_handler;
}

static bool is_default(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) == 0 && action->sa_handler == SIG_DFL;
}

static bool install(int number, struct sigaction *previous) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = copy_handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  return sigaction(number, &action, previous) == 0;
}

#endif

int cunwind_handler_install(void) {
#if defined(__x86_64__)
  // The host may have set all signals to their defaults, or taken this one: then sending it would end the process, or
  // run a stranger's handler.
  if (is_installed(atomic_load(&capture_signal))) return atomic_load(&capture_signal);
  // From the top: profilers and libraries that ask for a real-time signal start at SIGRTMIN.
  for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
    struct sigaction current;
    if (sigaction(number, NULL, &current) != 0) continue;
    if (is_default(&current)) {
      if (!install(number, NULL)) return -errno;
    } else if (!is_installed(number)) {
      continue;
    }
    atomic_store(&capture_signal, number);
    return number;
  }
  return -EBUSY;
#else
  return -ENOSYS;
#endif
}

static void ensure_alternate_stack(void) {
  stack_t current;
  if (sigaltstack(NULL, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
  // The host's own SA_ONSTACK handlers now run here too: one that needs more than there is must not write into what
  // lies below.
  size_t size = PAGE + ALTERNATE_STACK_SIZE;
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t alternate = {.ss_sp = memory + PAGE, .ss_flags = 0, .ss_size = ALTERNATE_STACK_SIZE};
  if (mprotect(memory, PAGE, PROT_NONE) != 0 || sigaltstack(&alternate, NULL) != 0)
    munmap(memory, size);
  else
    own_stack.alternate = memory;
}

void cunwind_thread_ends(void) {
  char *memory = own_stack.alternate;
  own_stack.alternate = NULL;
  stack_t current, none = {.ss_flags = SS_DISABLE};
  // The host may have put another in its place. One that is in use cannot be taken away.
  if (memory == NULL || sigaltstack(NULL, &current) != 0) return;
  if (current.ss_sp == memory + PAGE && sigaltstack(&none, NULL) != 0) return;
  munmap(memory, PAGE + ALTERNATE_STACK_SIZE);
}

void cunwind_prepare_thread(void) {
  ensure_alternate_stack();
  pthread_attr_t attributes;
  void *lowest;
  size_t size;
  if (own_stack.end == 0 && pthread_getattr_np(pthread_self(), &attributes) == 0) {
    if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
      own_stack.lowest = (uint64_t)(uintptr_t)lowest;
      own_stack.end = own_stack.lowest + size;
      // The main thread's grows into pages that are not there yet, or that somebody else has got by then.
      bool is_main = syscall(SYS_gettid) == getpid();
      own_stack.mapped = is_main ? (uint64_t)(uintptr_t)&attributes : own_stack.lowest;
    }
    pthread_attr_destroy(&attributes);
  }
  // A process started by a thread that blocks all signals inherits that (libdispatch's workers do).
  int number = atomic_load(&capture_signal);
  if (number == 0) return;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Takes the slot for the next generation. False while an abandoned handler copies.
static bool begin(enum stage stage, uint64_t *generation) {
  uint64_t state = atomic_load(&slot.state);
  if ((state & 3) == COPYING) return false;
  *generation = (state >> 2) + 1;
  return atomic_compare_exchange_strong(&slot.state, &state, *generation << 2 | stage);
}

#if defined(__x86_64__)

static enum cunwind_capture_result capture_by(int number, int32_t thread, uint64_t stack_highest, uint64_t timeout_ns,
                                              cunwind_snapshot *snapshot) {
  if ((atomic_load(&slot.state) & 3) == COPYING) return CUNWIND_CAPTURE_BUSY;
  // Written before the request is published, read by the handler after it has seen the request.
  slot.stack_highest = stack_highest;
  // A cold page in the copy costs the target 0.5 us each: touch them here, once.
  static bool touched;
  if (!touched) {
    for (size_t i = 0; i < sizeof stack_copy; i += PAGE) ((volatile unsigned char *)stack_copy)[i] = 0;
    touched = true;
  }
  uint64_t generation;
  if (!begin(REQUESTED, &generation)) return CUNWIND_CAPTURE_BUSY;
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = (void *)(uintptr_t)generation;
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, number, &info) != 0) {
    int error = errno;
    atomic_store(&slot.state, generation << 2 | FREE);
    return error == ESRCH ? CUNWIND_CAPTURE_NO_THREAD : CUNWIND_CAPTURE_REFUSED;
  }
  uint64_t start = now_ns();
  for (;;) {
    uint64_t state = atomic_load(&slot.state);
    if (state == (generation << 2 | COPIED)) break;
    uint64_t waited = now_ns() - start;
    if (waited > timeout_ns) {
      uint64_t expected = generation << 2 | REQUESTED;
      if (atomic_compare_exchange_strong(&slot.state, &expected, generation << 2 | FREE))
        return CUNWIND_CAPTURE_TIMED_OUT;
      // It has begun to copy: microseconds, unless it lost its processor in the middle.
      if (waited > 2 * timeout_ns) return CUNWIND_CAPTURE_TIMED_OUT;
    }
    if (waited < 30000) {
      __builtin_ia32_pause();
    } else {
      struct timespec pause = {0, 50000};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
  }
  *snapshot = slot.snapshot;
  return CUNWIND_CAPTURED;
}

#endif

enum cunwind_capture_result cunwind_capture_by_signal(int32_t thread, uint64_t stack_highest, uint64_t timeout_ns,
                                                      cunwind_snapshot *snapshot) {
#if defined(__x86_64__)
  int number = atomic_load(&capture_signal);
  if (!is_installed(number)) return CUNWIND_CAPTURE_UNSUPPORTED;
  return capture_by(number, thread, stack_highest, timeout_ns, snapshot);
#else
  return CUNWIND_CAPTURE_UNSUPPORTED;
#endif
}

enum cunwind_capture_result cunwind_capture_by_borrowed_signal(int32_t thread, uint64_t stack_highest,
                                                               uint64_t timeout_ns, cunwind_snapshot *snapshot) {
#if defined(__x86_64__)
  // A signal that has not been taken yet would end the process under the default disposition.
  static bool is_kept;
  if (!is_installed(SIGPROF)) {
    struct itimerval timer;
    struct sigaction previous;
    if (sigaction(SIGPROF, NULL, &previous) != 0 || !is_default(&previous)) return CUNWIND_CAPTURE_UNSUPPORTED;
    if (getitimer(ITIMER_PROF, &timer) != 0 || timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0)
      return CUNWIND_CAPTURE_UNSUPPORTED;
    if (!install(SIGPROF, &previous)) return CUNWIND_CAPTURE_UNSUPPORTED;
    if (!is_default(&previous)) {
      sigaction(SIGPROF, &previous, NULL);
      return CUNWIND_CAPTURE_UNSUPPORTED;
    }
  }
  enum cunwind_capture_result result = capture_by(SIGPROF, thread, stack_highest, timeout_ns, snapshot);
  if (result == CUNWIND_CAPTURE_TIMED_OUT) is_kept = true;
  // Not if the host has set its own meanwhile.
  if (!is_kept && is_installed(SIGPROF)) {
    struct sigaction original;
    memset(&original, 0, sizeof original);
    original.sa_handler = SIG_DFL;
    sigaction(SIGPROF, &original, NULL);
  }
  return result;
#else
  return CUNWIND_CAPTURE_UNSUPPORTED;
#endif
}

bool cunwind_snapshot_read(uint64_t stack_pointer, uint64_t stack_highest, cunwind_snapshot *snapshot) {
  uint64_t generation;
  if (!begin(FREE, &generation)) return false;
  memset(snapshot, 0, sizeof *snapshot);
  uint64_t from = stack_pointer - RED_ZONE;
  size_t wanted = stack_highest == 0 ? UNKNOWN_STACK : CUNWIND_STACK_CAPACITY;
  if (stack_pointer < stack_highest && stack_highest - from < wanted) wanted = stack_highest - from;
  size_t length = cunwind_read(from, stack_copy, wanted);
  if (length <= RED_ZONE) {
    from = stack_pointer;
    length = cunwind_read(from, stack_copy, wanted - RED_ZONE);
  }
  snapshot->stack_address = from;
  snapshot->stack_length = length;
  snapshot->stack = stack_copy;
  return true;
}
