// Captures of this process's blocked threads, without interference.
#ifndef CAPTURE_H
#define CAPTURE_H
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "CUnwind.h"

// Reads what a thread is blocked in.
static void read_call(int thread, char line[256]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
  int file = open(path, O_RDONLY);
  ssize_t length = file < 0 ? 0 : read(file, line, 255);
  line[length < 0 ? 0 : length] = 0;
  if (file >= 0) close(file);
}

// Unwinds a thread. MOVED if it was not blocked all the time, as on a busy machine.
enum { CAPTURED, MOVED, FAILED };
static int capture(cunwind_unwinder *unwinder, int thread, cunwind_frame *frames, size_t capacity, cunwind_backtrace *trace) {
  char line[256], later[256];
  read_call(thread, line);
  unsigned long number, sp, pc, a[6];
  if (sscanf(line, "%lu %lx %lx %lx %lx %lx %lx %lx %lx", &number, a, a + 1, a + 2, a + 3, a + 4, a + 5, &sp, &pc) != 9)
    return MOVED;
  cunwind_snapshot snapshot;
  if (!cunwind_snapshot_claim(cunwind_own_process())) return puts("no snapshot"), FAILED;
  if (!cunwind_snapshot_read(cunwind_own_process(), sp, 0, &snapshot)) return cunwind_snapshot_release(cunwind_own_process()), puts("no snapshot"), FAILED;
  snapshot.registers[CUNWIND_STACK_POINTER] = sp;
  snapshot.registers[CUNWIND_PROGRAM_COUNTER] = pc;
  snapshot.known = 1ull << CUNWIND_STACK_POINTER | 1ull << CUNWIND_PROGRAM_COUNTER;
#if defined(__aarch64__)
  for (int i = 0; i < 6; i++) snapshot.registers[i] = a[i], snapshot.known |= 1ull << i;
  snapshot.registers[8] = number, snapshot.known |= 1ull << 8;
#elif defined(__x86_64__)
  static const int places[] = {5, 4, 1, 10, 8, 9};
  for (int i = 0; i < 6; i++) snapshot.registers[places[i]] = a[i], snapshot.known |= 1ull << places[i];
#else
#error "Which registers /proc/PID/syscall has on this architecture is not known."
#endif
  *trace = cunwind_unwind(unwinder, &snapshot, frames, capacity);
  cunwind_snapshot_release(cunwind_own_process());
  read_call(thread, later);
  return strcmp(line, later) != 0 ? MOVED : CAPTURED;
}
#endif
