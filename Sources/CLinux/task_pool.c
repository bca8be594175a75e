#include "task_pool.h"

#include <stddef.h>

#define SWIFT_CALL __attribute__((swiftcall))
#define WEAK __attribute__((weak))
#define RELAXED __ATOMIC_RELAXED

// The beginning of a job in the runtime's ABI (include/swift/ABI/Task.h): a heap object's header, two words for the scheduler, and
// its flags.
typedef struct job {
  const void *metadata;
  uint64_t references;
  void *scheduler_private[2];
  uint32_t flags;
} job;

typedef SWIFT_CALL void (*enqueue_original)(job *);

// Each is weak: a program may have no Swift concurrency, or no libdispatch.
extern SWIFT_CALL void (*swift_task_enqueueGlobal_hook)(job *, enqueue_original) WEAK;
extern SWIFT_CALL void swift_job_run(job *, void *executor, uintptr_t witness) WEAK;
extern SWIFT_CALL size_t swift_concurrency_jobPriority(job *) WEAK;
typedef struct dispatch_object *dispatch_object;
extern dispatch_object dispatch_queue_create(const char *label, dispatch_object attributes) WEAK;
extern dispatch_object dispatch_queue_attr_make_with_qos_class(dispatch_object attributes, unsigned class, int relative) WEAK;
extern void dispatch_queue_set_width(dispatch_object queue, long width) WEAK;
extern void dispatch_async_f(dispatch_object queue, void *context, void (*work)(void *)) WEAK;
extern void dispatch_release(dispatch_object object) WEAK;
extern char _dispatch_queue_attr_concurrent WEAK;

enum {
  // JobPriority: QoS classes of libdispatch.
  USER_INTERACTIVE = 0x21, USER_INITIATED = 0x19, MEDIUM = 0x15, UTILITY = 0x11, BACKGROUND = 0x09,
  PRIORITIES = USER_INTERACTIVE + 1,
  // As many threads as logical processors (DISPATCH_QUEUE_WIDTH_MAX_LOGICAL_CPUS).
  WIDTH_OF_PROCESSORS = -3,
  // Which queue a job is on, for the runtime: index 1 of the scheduler's words, and the global executor's mark.
  QUEUE_WORD = 1, GLOBAL_EXECUTOR = 1,
  MOST_THREADS = 512,
};

// Each in cache lines of its own.
static union place {
  clinux_task_thread thread;
  char lines[256];
} threads[MOST_THREADS] __attribute__((aligned(64)));
_Static_assert(sizeof(union place) == 256, "a thread needs more cache lines");
static uint32_t thread_count;
// Jobs that other threads have put onto the pool, and those that began on threads without a place.
static uint64_t enqueued_elsewhere[CLINUX_TASK_PRIORITIES], begun_elsewhere[CLINUX_TASK_PRIORITIES];
static dispatch_object queues[PRIORITIES];
static const void *current_monitor;
static void (*thread_begins)(const void *monitor);
// Whether a job's flags were not where the runtime's own function finds its priority.
static bool has_other_layout;
static __thread clinux_task_thread *own_thread __attribute__((tls_model("initial-exec")));
// The monitor that has been offered this thread.
static __thread const void *offered_monitor __attribute__((tls_model("initial-exec")));

static unsigned class_of(size_t priority) {
  if (priority > USER_INITIATED) return 4;
  if (priority > MEDIUM) return 3;
  if (priority > UTILITY || priority == 0) return 2;
  return priority > BACKGROUND ? 1 : 0;
}

static inline void count(uint64_t *own, uint64_t *shared) {
  if (own != NULL) {
    __atomic_store_n(own, __atomic_load_n(own, RELAXED) + 1, __ATOMIC_RELEASE);
  } else {
    __atomic_fetch_add(shared, 1, __ATOMIC_RELEASE);
  }
}

// MARK: A job runs

__attribute__((noinline)) static clinux_task_thread *offer(const void *monitor) {
  offered_monitor = monitor;
  // The place of an earlier monitor is kept: its counts go on.
  if (monitor != NULL) thread_begins(monitor);
  return own_thread;
}

__attribute__((always_inline)) static inline void clinux_run_job(job *next, unsigned class) {
  const void *monitor = __atomic_load_n(&current_monitor, __ATOMIC_ACQUIRE);
  clinux_task_thread *thread = own_thread;
  if (__builtin_expect(offered_monitor != monitor, false)) thread = offer(monitor);
  count(thread != NULL ? &thread->begun[class] : NULL, &begun_elsewhere[class]);
  if (thread == NULL || monitor == NULL || thread->monitor != monitor) return swift_job_run(next, NULL, 0);
  uint32_t flags = __atomic_load_n(&has_other_layout, RELAXED) ? CLINUX_TASK_KIND_UNKNOWN : __atomic_load_n(&next->flags, RELAXED);
  __atomic_store_n(&thread->flags, flags, RELAXED);
  __atomic_store_n(&thread->priority, class, RELAXED);
  __atomic_store_n(&thread->job, (uint64_t)(uintptr_t)next, RELAXED);
  __atomic_store_n(&thread->is_running, 1, RELAXED);
  // Published by the word's store, which releases.
  clinux_turn_begin(&thread->stamp, clinux_turn_clock(&thread->stamp), CLINUX_AFTER_WAIT);
  swift_job_run(next, NULL, 0);
  clinux_turn_end(&thread->stamp);
  __atomic_store_n(&thread->is_running, 0, RELAXED);
}

// A job's priority may rise while it waits: its class is that of the queue. The names are part of stacks.
static void clinux_run_background_job(void *next) { clinux_run_job(next, 0); }
static void clinux_run_utility_job(void *next) { clinux_run_job(next, 1); }
static void clinux_run_medium_job(void *next) { clinux_run_job(next, 2); }
static void clinux_run_high_job(void *next) { clinux_run_job(next, 3); }
static void clinux_run_interactive_job(void *next) { clinux_run_job(next, 4); }

static void (*const runners[CLINUX_TASK_PRIORITIES])(void *) = {
    clinux_run_background_job, clinux_run_utility_job, clinux_run_medium_job, clinux_run_high_job, clinux_run_interactive_job,
};

// MARK: A job is enqueued

// As the runtime makes its own (DispatchGlobalExecutor.cpp): concurrent, and limited to the number of processors.
__attribute__((noinline)) static dispatch_object make_queue(size_t priority) {
  dispatch_object attributes = (dispatch_object)&_dispatch_queue_attr_concurrent;
  attributes = dispatch_queue_attr_make_with_qos_class(attributes, (unsigned)priority, 0);
  dispatch_object queue = dispatch_queue_create("Swift global concurrent queue", attributes), known = NULL;
  dispatch_queue_set_width(queue, WIDTH_OF_PROCESSORS);
  if (__atomic_compare_exchange_n(&queues[priority], &known, queue, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return queue;
  dispatch_release(queue);
  return known;
}

static SWIFT_CALL void enqueue(job *next, enqueue_original original) {
  size_t priority = swift_concurrency_jobPriority(next);
  if (priority >= PRIORITIES) return original(next);
  dispatch_object queue = __atomic_load_n(&queues[priority], __ATOMIC_ACQUIRE);
  if (__builtin_expect(queue == NULL, false)) {
    queue = make_queue(priority);
    bool is_known = (__atomic_load_n(&next->flags, RELAXED) >> 8 & 0xff) == swift_concurrency_jobPriority(next);
    if (!is_known) __atomic_store_n(&has_other_layout, true, RELAXED);
  }
  next->scheduler_private[QUEUE_WORD] = (void *)GLOBAL_EXECUTOR;
  unsigned class = class_of(priority);
  clinux_task_thread *thread = own_thread;
  // Before the job can begin elsewhere: it is never counted as begun and not as enqueued.
  count(thread != NULL ? &thread->enqueued[class] : NULL, &enqueued_elsewhere[class]);
  dispatch_async_f(queue, next, runners[class]);
}

// MARK: The monitor's side

clinux_task_pool_result clinux_task_pool_hook(const void *monitor, void (*begins)(const void *monitor)) {
  if (&swift_task_enqueueGlobal_hook == NULL || swift_job_run == NULL || swift_concurrency_jobPriority == NULL ||
      dispatch_queue_create == NULL || dispatch_queue_attr_make_with_qos_class == NULL || dispatch_queue_set_width == NULL ||
      dispatch_async_f == NULL || dispatch_release == NULL || &_dispatch_queue_attr_concurrent == NULL) {
    return CLINUX_TASK_POOL_UNKNOWN;
  }
  if (__atomic_load_n(&current_monitor, __ATOMIC_ACQUIRE) != NULL) return CLINUX_TASK_POOL_TAKEN;
  SWIFT_CALL void (*none)(job *, enqueue_original) = NULL;
  if (!__atomic_compare_exchange_n(&swift_task_enqueueGlobal_hook, &none, enqueue, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return CLINUX_TASK_POOL_TAKEN;
  }
  thread_begins = begins;
  __atomic_store_n(&current_monitor, monitor, __ATOMIC_RELEASE);
  return CLINUX_TASK_POOL_HOOKED;
}

bool clinux_task_pool_is_hooked(void) {
  return &swift_task_enqueueGlobal_hook != NULL && __atomic_load_n(&swift_task_enqueueGlobal_hook, __ATOMIC_ACQUIRE) == enqueue;
}

void clinux_task_pool_unhook(void) {
  __atomic_store_n(&current_monitor, NULL, __ATOMIC_RELEASE);
  if (&swift_task_enqueueGlobal_hook == NULL) return;
  SWIFT_CALL void (*own)(job *, enqueue_original) = enqueue;
  __atomic_compare_exchange_n(&swift_task_enqueueGlobal_hook, &own, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

clinux_task_thread *clinux_task_thread_take(void) {
  if (own_thread != NULL) return own_thread;
  for (uint32_t i = 0; i < MOST_THREADS; i++) {
    uint32_t is_free = 0;
    if (!__atomic_compare_exchange_n(&threads[i].thread.is_taken, &is_free, 1, false, __ATOMIC_ACQUIRE, RELAXED)) continue;
    uint32_t known = __atomic_load_n(&thread_count, RELAXED);
    while (known <= i && !__atomic_compare_exchange_n(&thread_count, &known, i + 1, false, __ATOMIC_RELEASE, RELAXED)) continue;
    return own_thread = &threads[i].thread;
  }
  return NULL;
}

void clinux_task_thread_release(clinux_task_thread *thread) {
  thread->monitor = NULL;
  thread->is_running = 0;
  if (own_thread == thread) own_thread = NULL;
  offered_monitor = NULL;
  __atomic_store_n(&thread->is_taken, 0, __ATOMIC_RELEASE);
}

uint64_t clinux_task_run_address(void) { return (uint64_t)(uintptr_t)swift_job_run; }

uint64_t clinux_task_thread_job(const clinux_task_thread *thread) { return __atomic_load_n(&thread->job, RELAXED); }

uint32_t clinux_task_thread_flags(const clinux_task_thread *thread) { return __atomic_load_n(&thread->flags, RELAXED); }

uint32_t clinux_task_thread_priority(const clinux_task_thread *thread) { return __atomic_load_n(&thread->priority, RELAXED); }

bool clinux_task_pool_runs_job(int32_t thread) {
  uint32_t known = __atomic_load_n(&thread_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < known; i++) {
    const clinux_task_thread *place = &threads[i].thread;
    if (__atomic_load_n(&place->stamp.owner, RELAXED) == thread) return __atomic_load_n(&place->is_running, RELAXED) != 0;
  }
  return false;
}

static uint64_t sum(size_t offset, const uint64_t *elsewhere) {
  uint64_t total = __atomic_load_n(elsewhere, __ATOMIC_ACQUIRE);
  uint32_t known = __atomic_load_n(&thread_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < known; i++) {
    total += __atomic_load_n((const uint64_t *)(threads[i].lines + offset), __ATOMIC_ACQUIRE);
  }
  return total;
}

uint64_t clinux_task_pool_begun(uint32_t priority) {
  if (priority >= CLINUX_TASK_PRIORITIES) return 0;
  return sum(offsetof(clinux_task_thread, begun) + priority * sizeof(uint64_t), &begun_elsewhere[priority]);
}

uint64_t clinux_task_pool_waiting(uint32_t priority) {
  if (priority >= CLINUX_TASK_PRIORITIES) return 0;
  size_t offset = offsetof(clinux_task_thread, enqueued) + priority * sizeof(uint64_t);
  uint64_t enqueued = sum(offset, &enqueued_elsewhere[priority]), begun = clinux_task_pool_begun(priority);
  return enqueued > begun ? enqueued - begun : 0;
}
