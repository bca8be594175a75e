#include "victim_task_hook.h"

typedef struct job job;
typedef __attribute__((swiftcall)) void (*enqueue_original)(job *);

extern __attribute__((swiftcall)) void (*swift_task_enqueueGlobal_hook)(job *, enqueue_original) __attribute__((weak));

static __attribute__((swiftcall)) void pass_on(job *next, enqueue_original original) { original(next); }

void victim_take_task_hook(void) {
  if (&swift_task_enqueueGlobal_hook != 0) swift_task_enqueueGlobal_hook = pass_on;
}
