#define _GNU_SOURCE
#include "include/tasks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "include/loop.h"

extern void *swift_task_getCurrent(void) __attribute__((weak, swiftcall));
extern void *swift_task_alloc(size_t size) __attribute__((weak, swiftcall));
extern void swift_task_dealloc(void *memory) __attribute__((weak, swiftcall));
extern uint64_t swift_task_getJobTaskId(void *job) __attribute__((weak, swiftcall));

bool clinux_tasks_are_here(void) {
  return swift_task_getCurrent != 0 && swift_task_alloc != 0 && swift_task_dealloc != 0 && swift_task_getJobTaskId != 0;
}

uint64_t clinux_current_task(void) { return (uint64_t)(uintptr_t)swift_task_getCurrent(); }

uint64_t clinux_task_id(uint64_t task) { return swift_task_getJobTaskId((void *)(uintptr_t)task); }

void *clinux_task_allocate(size_t size) { return swift_task_alloc(size); }

void clinux_task_free(void *memory) { swift_task_dealloc(memory); }

static uint64_t main_thread_pointer;

__attribute__((constructor)) static void note_main_thread(void) {
  if (syscall(SYS_gettid) == getpid()) main_thread_pointer = (uint64_t)clinux_thread_pointer();
}

uint64_t clinux_main_thread_pointer(void) { return main_thread_pointer; }
