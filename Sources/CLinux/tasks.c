#define _GNU_SOURCE
#include "include/tasks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "include/loop.h"

extern void *swift_task_getCurrent(void) __attribute__((weak, swiftcall));
extern void *swift_task_alloc(size_t size) __attribute__((weak, swiftcall));
extern void swift_task_dealloc(void *memory) __attribute__((weak, swiftcall));
extern uint64_t swift_task_getJobTaskId(void *job) __attribute__((weak, swiftcall));

// Task.yield().
extern void task_yield(void) __asm__("$sScTss5NeverORszABRs_rlE5yieldyyYaFZ") __attribute__((weak));

// What executors run jobs with.
extern void swift_job_run(void) __attribute__((weak));
extern void swift_job_run_on_task_executor(void) __attribute__((weak));
extern void swift_job_run_on_serial_and_task_executor(void) __attribute__((weak));

uint64_t clinux_job_entry_before(uint64_t address) {
  const uint64_t entries[] = {(uint64_t)(uintptr_t)swift_job_run, (uint64_t)(uintptr_t)swift_job_run_on_task_executor,
                              (uint64_t)(uintptr_t)swift_job_run_on_serial_and_task_executor};
  uint64_t found = 0;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    if (entries[i] > found && entries[i] <= address && address - entries[i] < 1024) found = entries[i];
  }
  return found;
}

bool clinux_tasks_are_here(void) {
  return swift_task_getCurrent != 0 && swift_task_alloc != 0 && swift_task_dealloc != 0 && swift_task_getJobTaskId != 0;
}

uint64_t clinux_current_task(void) { return (uint64_t)(uintptr_t)swift_task_getCurrent(); }

uint64_t clinux_task_yield(void) { return (uint64_t)(uintptr_t)task_yield; }

uint64_t clinux_task_id(uint64_t task) { return swift_task_getJobTaskId((void *)(uintptr_t)task); }

void *clinux_task_allocate(size_t size) { return swift_task_alloc(size); }

void clinux_task_free(void *memory) { swift_task_dealloc(memory); }

static uint64_t main_thread_pointer;

__attribute__((constructor)) static void note_main_thread(void) {
  if (syscall(SYS_gettid) == getpid()) main_thread_pointer = (uint64_t)clinux_thread_pointer();
}

uint64_t clinux_main_thread_pointer(void) { return main_thread_pointer; }
