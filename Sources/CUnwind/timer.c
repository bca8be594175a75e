#define _GNU_SOURCE
#include "cunwind_timer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "architecture.h"
#include "snapshot_internal.h"

int cunwind_first_real_time_signal(void) { return SIGRTMIN; }

#if CUNWIND_HAS_STACKS

#define PAGE CUNWIND_SMALLEST_PAGE
// How many bytes are copied of a stack whose end is not known.
#define UNKNOWN_STACK (64u << 10)

bool cunwind_is_readable(uint64_t address) { return cunwind_arch_is_readable(address); }

size_t cunwind_checked_copy(void *to, uint64_t from, size_t length) {
  size_t done = 0;
  while (done < length) {
    uint64_t at = from + done;
    size_t part = PAGE - at % PAGE;
    if (part > length - done) part = length - done;
    // Within the page, whatever the last bytes are.
    if (!cunwind_arch_is_readable(at & ~7ull)) break;
    cunwind_arch_copy((char *)to + done, at, part);
    done += part;
  }
  return done;
}

static size_t copy_stack(uint64_t from, uint64_t sp, const stack_t *alternate) {
  uint64_t lowest = (uint64_t)(uintptr_t)alternate->ss_sp;
  bool is_own = sp >= cunwind_own_stack.lowest && sp < cunwind_own_stack.end;
  uint64_t end = sp + UNKNOWN_STACK;
  if (is_own)
    end = cunwind_own_stack.end;
  else if (sp >= lowest && sp - lowest < alternate->ss_size)
    end = lowest + alternate->ss_size;
  size_t wanted = end - from < CUNWIND_STACK_CAPACITY ? (size_t)(end - from) : CUNWIND_STACK_CAPACITY;
  // Each page every time: the process may protect or unmap parts of any stack, coroutines within this one among them.
  return cunwind_checked_copy(cunwind_stack_copy, from, wanted);
}

__attribute__((no_sanitize("address", "thread"))) static void copy_handler(int number, siginfo_t *info, void *context) {
  const ucontext_t *interrupted = context;
  // The mask that the thread goes back to blocks this signal, so a call with a mask of its own let it in, and must not
  // notice. Otherwise the EINTR is another signal's.
  uint64_t mask;
  memcpy(&mask, &interrupted->uc_sigmask, sizeof mask);
  if ((mask >> (number - 1) & 1) != 0) cunwind_arch_restart_call(context);
  if (info->si_code != SI_TIMER) return;
  uint64_t generation = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
  uint64_t expected = generation << 2 | SNAPSHOT_REQUESTED;
  if (!atomic_compare_exchange_strong(&cunwind_slot.state, &expected, generation << 2 | SNAPSHOT_COPYING)) return;

  cunwind_snapshot *snapshot = &cunwind_slot.snapshot;
  cunwind_arch_copy_registers(interrupted, snapshot->registers);
  snapshot->known = CUNWIND_ALL_KNOWN;
  uint64_t sp = snapshot->registers[CUNWIND_STACK_POINTER], from = sp - CUNWIND_RED_ZONE;
  size_t length = copy_stack(from, sp, &interrupted->uc_stack);
  if (length <= CUNWIND_RED_ZONE) {
    // The red zone begins in the guard page.
    from = sp;
    length = copy_stack(from, sp, &interrupted->uc_stack);
  }
  snapshot->stack_address = from;
  snapshot->stack_length = length;
  snapshot->stack = cunwind_stack_copy;
  atomic_store(&cunwind_slot.state, generation << 2 | SNAPSHOT_COPIED);
}

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

int cunwind_timer_signal(uint64_t blocked) {
  // From the top: profilers and libraries that ask for a real-time signal start at SIGRTMIN.
  for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
    struct sigaction current, previous;
    if ((blocked >> (number - 1) & 1) != 0 || sigaction(number, NULL, &current) != 0) continue;
    if (is_installed(number)) return number;
    if (!is_default(&current) || !install(number, &previous)) continue;
    if (is_default(&previous)) return number;
    // The process has set its own in between.
    sigaction(number, &previous, NULL);
  }
  return -EBUSY;
}

bool cunwind_timer_borrow_profiling_signal(void) {
  if (is_installed(SIGPROF)) return true;
  struct itimerval timer;
  struct sigaction previous;
  if (sigaction(SIGPROF, NULL, &previous) != 0 || !is_default(&previous)) return false;
  if (getitimer(ITIMER_PROF, &timer) != 0 || timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0) return false;
  if (!install(SIGPROF, &previous)) return false;
  if (is_default(&previous)) return true;
  sigaction(SIGPROF, &previous, NULL);
  return false;
}

// The clock of the user-mode time of a thread (linux/posix-timers.h: CPUCLOCK_VIRT, per thread).
static clockid_t user_clock(int32_t thread) { return (clockid_t)(~(unsigned)thread << 3 | 4 | 1); }

// How much user-mode time the timer is set to.
//
// Where ticks are counted, the time grows by whole ticks, each in the tick that met the thread in user mode. Since 5.11
// (POSIX_CPU_TIMERS_TASK_WORK; on aarch64 since 5.16) an expired timer is handled by the thread itself on its way back to user mode, so
// whatever call it is in by then is complete: the shortest time will do. Before, the tick itself raises the signal. A
// tick at the very moment of arming may leave a shorter timer expired, for the next tick to find in the middle of a
// call. A timer of one and a half ticks expires in the second counted tick or a later one, and each counted tick
// interrupts user mode. This needs counted ticks, which processors without a periodic tick (nohz_full) do not have.
static long timer_length(void) {
  static _Atomic long known;
  long length = atomic_load(&known);
  if (length != 0) return length;
  struct utsname name;
  int major = 0, minor = 0;
  length = -1;
  if (uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2) {
    struct timespec tick;
    if (major > 5 || (major == 5 && minor >= CUNWIND_TASK_WORK_SINCE))
      length = 1;
    else if (access("/sys/devices/system/cpu/nohz_full", F_OK) != 0 &&
             clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0)
      length = tick.tv_nsec + tick.tv_nsec / 2;
  }
  atomic_store(&known, length);
  return length;
}

static bool arm(const cunwind_timer *timer) {
  struct itimerspec off = {{0, 0}, {0, 0}}, on = {{0, 0}, {0, timer_length()}};
  for (int attempt = 0; attempt < 4; attempt++) {
    struct timespec before, after;
    if (clock_gettime(user_clock(timer->thread), &before) != 0) return false;
    // Relative: a time that has passed would raise the signal at once.
    if (syscall(SYS_timer_settime, timer->identifier, 0, &on, NULL) != 0) return false;
    if (clock_gettime(user_clock(timer->thread), &after) != 0) return false;
    // No tick came in between, so the timer has not expired unseen.
    if (before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec) return true;
    syscall(SYS_timer_settime, timer->identifier, 0, &off, NULL);
  }
  return true;
}

static void touch_copy(void) {
  // A cold page in the copy costs the target 0.5 us: touch each here, once.
  static bool touched;
  if (touched) return;
  for (size_t i = 0; i < CUNWIND_STACK_CAPACITY; i += PAGE) ((volatile unsigned char *)cunwind_stack_copy)[i] = 0;
  touched = true;
}

int cunwind_timer_check(void) {
  if (timer_length() < 0) return -ENOTSUP;
  int kept = errno;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_NONE;
  int identifier, result = 0;
  if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &identifier) == 0)
    syscall(SYS_timer_delete, identifier);
  else
    result = -errno;
  errno = kept;
  return result;
}

enum cunwind_capture_result cunwind_timer_begin(cunwind_timer *timer, int32_t thread, int number) {
  *timer = (cunwind_timer){.number = number, .identifier = -1, .thread = thread, .generation = 0};
  if (timer_length() < 0 || !is_installed(number)) return CUNWIND_CAPTURE_UNSUPPORTED;
  if ((atomic_load(&cunwind_slot.state) & 3) == SNAPSHOT_COPYING) return CUNWIND_CAPTURE_BUSY;
  touch_copy();
  if (!cunwind_slot_begin(SNAPSHOT_REQUESTED, &timer->generation)) return CUNWIND_CAPTURE_BUSY;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = number;
  event.sigev_value.sival_ptr = (void *)(uintptr_t)timer->generation;
  event._sigev_un._tid = thread;
  if (syscall(SYS_timer_create, user_clock(thread), &event, &timer->identifier) == 0) {
    if (arm(timer)) return CUNWIND_CAPTURED;
  } else {
    timer->identifier = -1;
  }
  int error = errno;
  cunwind_timer_end(timer);
  // A thread that has ended has no clock.
  if (cunwind_thread_is_gone(&cunwind_own, thread)) return CUNWIND_CAPTURE_NO_THREAD;
  return error == EAGAIN || error == ENOMEM ? CUNWIND_CAPTURE_REFUSED : CUNWIND_CAPTURE_UNSUPPORTED;
}

enum cunwind_capture_result cunwind_timer_wait(cunwind_timer *timer, uint64_t timeout_ns, cunwind_snapshot *snapshot) {
  uint64_t end = cunwind_now_ns() + timeout_ns;
  while (atomic_load(&cunwind_slot.state) != (timer->generation << 2 | SNAPSHOT_COPIED)) {
    if (cunwind_now_ns() >= end) return CUNWIND_CAPTURE_WAITING;
    struct timespec pause = {0, 50000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
  }
  *snapshot = cunwind_slot.snapshot;
  return CUNWIND_CAPTURED;
}

bool cunwind_timer_is_copying(const cunwind_timer *timer) {
  return atomic_load(&cunwind_slot.state) == (timer->generation << 2 | SNAPSHOT_COPYING);
}

// Takes back a signal that the thread blocks and so has not taken: the kernel discards what is pending of a signal that
// is ignored. A call with a mask of its own would let it in and fail, and signalfd(2) would read it.
static void discard_pending(int number) {
  if (!is_installed(number)) return;
  struct sigaction ignored;
  memset(&ignored, 0, sizeof ignored);
  ignored.sa_handler = SIG_IGN;
  if (sigaction(number, &ignored, NULL) == 0) install(number, NULL);
}

void cunwind_timer_end(cunwind_timer *timer) {
  if (timer->identifier >= 0) syscall(SYS_timer_delete, timer->identifier);
  timer->identifier = -1;
  uint64_t expected = timer->generation << 2 | SNAPSHOT_REQUESTED;
  bool was_unanswered =
      atomic_compare_exchange_strong(&cunwind_slot.state, &expected, timer->generation << 2 | SNAPSHOT_FREE);
  for (int i = 0; i < 200 && atomic_load(&cunwind_slot.state) == (timer->generation << 2 | SNAPSHOT_COPYING); i++) {
    struct timespec pause = {0, 50000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
  }
  if (was_unanswered) discard_pending(timer->number);
  // Not if the process has set its own meanwhile.
  if (timer->number == SIGPROF && is_installed(SIGPROF)) {
    struct sigaction original;
    memset(&original, 0, sizeof original);
    original.sa_handler = SIG_DFL;
    sigaction(SIGPROF, &original, NULL);
  }
}

#endif
