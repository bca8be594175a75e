#include "victim_task_hook.h"

#include <stdint.h>

typedef struct job job;
typedef __attribute__((swiftcall)) void (*enqueue_original)(job *);

extern __attribute__((swiftcall)) void (*swift_task_enqueueGlobal_hook)(job *, enqueue_original) __attribute__((weak));

static __attribute__((swiftcall)) void pass_on(job *next, enqueue_original original) { original(next); }

void victim_take_task_hook(void) {
  if (&swift_task_enqueueGlobal_hook != 0) swift_task_enqueueGlobal_hook = pass_on;
}

// MARK: An executor of the host's own

extern __attribute__((swiftcall)) void swift_job_run(job *, void *executor, uintptr_t witness) __attribute__((weak));
extern void *dispatch_queue_create(const char *label, void *attributes) __attribute__((weak));
extern const char *dispatch_queue_get_label(void *queue) __attribute__((weak));
extern void dispatch_async_f(void *queue, void *context, void (*work)(void *)) __attribute__((weak));

static __attribute__((swiftcall)) void (*inner)(job *, enqueue_original);
static void *own_queue;

static void run(void *next) { swift_job_run(next, 0, 0); }

static __attribute__((swiftcall)) void enqueue_on_own(job *next) { dispatch_async_f(own_queue, next, run); }

static __attribute__((swiftcall)) void ask_inner(job *next, enqueue_original original) {
  (void)original;
  inner(next, enqueue_on_own);
}

void victim_replace_global_executor(void) {
  own_queue = dispatch_queue_create("executor of the host", 0);
  inner = swift_task_enqueueGlobal_hook;
  swift_task_enqueueGlobal_hook = ask_inner;
}

const char *victim_current_queue(void) { return dispatch_queue_get_label(0); }
