#define _GNU_SOURCE
#include "snapshot_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What is copied of a stack whose end is not known.
#define UNKNOWN_STACK (64u << 10)

struct snapshot_slot cunwind_slot;
_Alignas(4096) unsigned char cunwind_stack_copy[CUNWIND_STACK_CAPACITY];

bool cunwind_snapshot_claim(cunwind_process *process) {
  pid_t self = getpid(), owner = 0;
  if (atomic_compare_exchange_strong(&process->claimed, &owner, self)) return true;
  // In the child of a fork, the threads that had it and copied into it are gone.
  if (owner == self || !atomic_compare_exchange_strong(&process->claimed, &owner, self)) return false;
  if (process != &cunwind_own) return true;
  atomic_store(&cunwind_slot.state, ((atomic_load(&cunwind_slot.state) >> 2) + 1) << 2 | SNAPSHOT_FREE);
  return true;
}

void cunwind_snapshot_release(cunwind_process *process) { atomic_store(&process->claimed, 0); }

bool cunwind_slot_begin(enum snapshot_stage stage, uint64_t *generation) {
  uint64_t state = atomic_load(&cunwind_slot.state);
  if ((state & 3) == SNAPSHOT_COPYING) return false;
  *generation = (state >> 2) + 1;
  return atomic_compare_exchange_strong(&cunwind_slot.state, &state, *generation << 2 | stage);
}

unsigned char *cunwind_copy_begin(cunwind_process *process) {
  uint64_t generation;
  bool is_free = process != &cunwind_own || cunwind_slot_begin(SNAPSHOT_FREE, &generation);
  return is_free ? process->stack_copy : NULL;
}

uint64_t cunwind_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool cunwind_thread_is_gone(const cunwind_process *process, int32_t thread) {
  return syscall(SYS_tgkill, process->id != 0 ? process->id : getpid(), thread, 0) != 0 && errno == ESRCH;
}

bool cunwind_snapshot_read(cunwind_process *process, uint64_t stack_pointer, uint64_t stack_highest,
                           cunwind_snapshot *snapshot) {
  unsigned char *copy = cunwind_copy_begin(process);
  if (copy == NULL) return false;
  memset(snapshot, 0, sizeof *snapshot);
  uint64_t from = stack_pointer - CUNWIND_RED_ZONE;
  size_t wanted = stack_highest == 0 ? UNKNOWN_STACK : CUNWIND_STACK_CAPACITY;
  if (stack_pointer < stack_highest && stack_highest - from < wanted) wanted = stack_highest - from;
  size_t length = cunwind_read(process, from, copy, wanted);
  if (length <= CUNWIND_RED_ZONE) {
    from = stack_pointer;
    length = cunwind_read(process, from, copy, wanted - CUNWIND_RED_ZONE);
  }
  snapshot->stack_address = from;
  snapshot->stack_length = length;
  snapshot->stack = copy;
  return true;
}
