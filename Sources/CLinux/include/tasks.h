// The runtime of Swift concurrency, as far as a self-test of its layouts needs it.
// In C because Swift refuses declarations of the runtime's own functions, and because the symbols are weak: a process may have no such
// runtime. It can go when Swift has weak references.
#ifndef CLINUX_TASKS_H
#define CLINUX_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Whether the process has the functions below.
bool clinux_tasks_are_here(void);

/// The task that the calling thread runs, or 0.
uint64_t clinux_current_task(void);

/// The id of a task that is alive.
uint64_t clinux_task_id(uint64_t task);

/// Allocates memory from the calling thread's current task. It is freed in the reverse order.
void *clinux_task_allocate(size_t size);

/// Frees what was allocated last.
void clinux_task_free(void *memory);

/// The function `Task.yield()`, or 0 if the process has none.
uint64_t clinux_task_yield(void);

/// The function of the runtime that runs jobs and begins at most 1 KiB before `address`, or 0.
uint64_t clinux_job_entry_before(uint64_t address);

/// The main thread's thread pointer, or 0 if another thread has loaded the library.
uint64_t clinux_main_thread_pointer(void);

#endif
