#define _GNU_SOURCE
#include "cunwind_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cunwind_perf.h"
#include "process_internal.h"
#include "snapshot_internal.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
// What the handler itself needs beside the kernel's frame, in a debug build, too.
#define HANDLER_ROOM 2048u
#define LARGEST_ALTERNATE_STACK (8u << 20)
#define PREPARED 0x7468726564756e77ull

__thread struct own_stack cunwind_own_stack __attribute__((tls_model("initial-exec")));

// What others read of a prepared thread. It lies in the thread's own block, which the C library clears for the next
// thread, so a thread that got the id of one that has ended is not taken for it.
struct note {
  uint64_t mark;
  pid_t process;
  int32_t thread;
  uint64_t alternate_size;
};
static __thread struct note own_note __attribute__((tls_model("initial-exec")));
// The alternate stack that the thread was given, with its guard page, or NULL.
static __thread struct {
  char *memory;
  size_t size;
} own_alternate __attribute__((tls_model("initial-exec")));

// Where the notes of threads are. A thread that is pushed out of the table has no stack while it runs.
// Enough for the threads of the task pool, 256 at most, and for as many others.
#define NOTES 512u
// Of a place whose note is about to be entered.
#define TAKEN (-1)
static struct {
  _Atomic int32_t thread;
  _Atomic(struct note *) note;
} notes[NOTES];
static _Atomic unsigned next_note;

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t least_alternate_stack(void) {
  size_t frame = getauxval(AT_MINSIGSTKSZ);
  // Kernels before 5.14 do not report it; AVX-512's state is the largest that they save.
  return (frame != 0 ? frame : 4096) + HANDLER_ROOM;
}

static void ensure_alternate_stack(void) {
  stack_t current;
  if (sigaltstack(NULL, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
  size_t page = page_size(), size = (cunwind_own_stack.end - cunwind_own_stack.lowest) & ~(page - 1);
  if (size > LARGEST_ALTERNATE_STACK) size = LARGEST_ALTERNATE_STACK;
  if (size < 64u << 10) size = 64u << 10;
  // The process's own handlers now run here: one that needs more than there is must not write into what lies below.
  char *memory = mmap(NULL, page + size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t alternate = {.ss_sp = memory + page, .ss_flags = 0, .ss_size = size};
  if (mprotect(memory, page, PROT_NONE) != 0 || sigaltstack(&alternate, NULL) != 0) {
    munmap(memory, page + size);
    return;
  }
  own_alternate.memory = memory;
  own_alternate.size = page + size;
}

static void note_bounds(void) {
  pthread_attr_t attributes;
  void *lowest;
  size_t size;
  if (cunwind_own_stack.end != 0 || pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
    cunwind_own_stack.lowest = (uint64_t)(uintptr_t)lowest;
    cunwind_own_stack.end = cunwind_own_stack.lowest + size;
  }
  pthread_attr_destroy(&attributes);
}

// Whether the calling thread was left unchanged because of perf events.
static __thread bool own_perf_serves __attribute__((tls_model("initial-exec")));
static _Atomic bool need_timer;

void cunwind_threads_need_timer(bool need) { atomic_store_explicit(&need_timer, need, memory_order_relaxed); }

static void note_alternate_stack(void) {
  stack_t current;
  bool has = sigaltstack(NULL, &current) == 0 && (current.ss_flags & SS_DISABLE) == 0;
  __atomic_store_n(&own_note.alternate_size, has ? current.ss_size : 0, __ATOMIC_RELEASE);
}

// Takes a place that `thread` has, 0 for a free one; false if another thread is taking it.
static bool take_place(unsigned index, int32_t thread) {
  return thread != TAKEN && atomic_compare_exchange_strong(&notes[index].thread, &thread, TAKEN);
}

// Enters the calling thread's note in the table, in a free place if there is one.
static void enter_note(void) {
  for (unsigned i = 0; i < NOTES; i++) {
    if (atomic_load(&notes[i].thread) == own_note.thread && atomic_load(&notes[i].note) == &own_note) return;
  }
  unsigned index = 0;
  while (index < NOTES && !take_place(index, 0)) index++;
  for (unsigned i = 0; index == NOTES && i < NOTES; i++) {
    unsigned other = atomic_fetch_add(&next_note, 1) % NOTES;
    if (take_place(other, atomic_load(&notes[other].thread))) index = other;
  }
  if (index == NOTES) return;
  atomic_store(&notes[index].note, &own_note);
  atomic_store(&notes[index].thread, own_note.thread);
}

void cunwind_note_thread(void) {
  if (own_note.mark == PREPARED) {
    note_alternate_stack();
    enter_note();
  } else if (own_perf_serves && atomic_load_explicit(&need_timer, memory_order_relaxed)) {
    cunwind_prepare_thread_for_timer();
  }
}

void cunwind_prepare_thread_for_timer(void) {
  pid_t process = getpid();
  if (own_note.mark == PREPARED && own_note.process == process) return note_alternate_stack();
  note_bounds();
  ensure_alternate_stack();
  own_note.thread = (int32_t)syscall(SYS_gettid);
  own_note.process = process;
  own_note.mark = PREPARED;
  note_alternate_stack();
  enter_note();
}

bool cunwind_prepare_thread(void) {
  if (own_note.mark != PREPARED && !own_perf_serves) own_perf_serves = cunwind_perf_is_permitted();
  if (own_note.mark != PREPARED && own_perf_serves)
    cunwind_note_thread();
  else
    cunwind_prepare_thread_for_timer();
  return own_note.mark == PREPARED;
}

void cunwind_thread_ends(void) {
  own_note.mark = 0;
  for (unsigned i = 0; i < NOTES; i++) {
    int32_t own = own_note.thread;
    if (atomic_load(&notes[i].note) == &own_note) atomic_compare_exchange_strong(&notes[i].thread, &own, 0);
  }
  char *memory = own_alternate.memory;
  own_alternate.memory = NULL;
  stack_t current, none = {.ss_flags = SS_DISABLE};
  // The process may have put another in its place. One that is in use cannot be taken away.
  if (memory == NULL || sigaltstack(NULL, &current) != 0) return;
  if (current.ss_sp == memory + page_size() && sigaltstack(&none, NULL) != 0) return;
  munmap(memory, own_alternate.size);
}

bool cunwind_thread_is_prepared(int32_t thread) {
  for (unsigned i = 0; i < NOTES; i++) {
    if (atomic_load(&notes[i].thread) != thread) continue;
    struct note note;
    // The thread may have ended, and its block with it.
    if (cunwind_read(&cunwind_own, (uint64_t)(uintptr_t)atomic_load(&notes[i].note), &note, sizeof note) != sizeof note) continue;
    if (note.mark == PREPARED && note.process == getpid() && note.thread == thread)
      return note.alternate_size >= least_alternate_stack();
  }
  return false;
}
