#include "task_pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
extern dispatch_object dispatch_get_current_queue(void) WEAK;
extern const char *dispatch_queue_get_label(dispatch_object queue) WEAK;
extern void dispatch_async_f(dispatch_object queue, void *context, void (*work)(void *)) WEAK;

enum {
  // JobPriority: QoS classes of libdispatch.
  USER_INTERACTIVE = 0x21, USER_INITIATED = 0x19, MEDIUM = 0x15, UTILITY = 0x11, BACKGROUND = 0x09,
  PRIORITIES = USER_INTERACTIVE + 1,
  // Which queue a job is on, for the runtime: index 1 of the scheduler's words, and the global executor's mark.
  QUEUE_WORD = 1, GLOBAL_EXECUTOR = 1,
  MEDIUM_CLASS = 2,
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
// The runtime's own queue of each priority, once a job has run on it.
static dispatch_object queues[PRIORITIES];
static const void *current_monitor;
static void (*thread_begins)(const void *monitor);
// Whether the monitor waits for a job of the default priority to begin, and what it is called by then.
static uint32_t awaits_job;
static void (*job_begins)(const void *monitor);
static void (*send_scout)(clinux_task_scout *scout, uint8_t priority);
// HOOKED, or why the runtime's queues cannot be known.
static clinux_task_pool_state queue_state;
// The process that has hooked last: its child has what follows from that, and none of the threads.
static pid_t hooking_process;
static __thread clinux_task_thread *own_thread __attribute__((tls_model("initial-exec")));
// The monitor that has been offered this thread.
static __thread const void *offered_monitor __attribute__((tls_model("initial-exec")));
// Whether the job that the thread enqueues is the monitor's own.
static __thread bool is_scouting __attribute__((tls_model("initial-exec")));

static unsigned class_of(size_t priority) {
  if (priority > USER_INITIATED) return 4;
  if (priority > MEDIUM) return 3;
  if (priority > UTILITY || priority == 0) return MEDIUM_CLASS;
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
  int kept = errno;
  offered_monitor = monitor;
  // The place of an earlier monitor is kept: its counts continue.
  if (monitor != NULL) thread_begins(monitor);
  errno = kept;
  return own_thread;
}

__attribute__((noinline)) static void begin_awaited_job(const void *monitor) {
  uint32_t awaits = __atomic_exchange_n(&awaits_job, 0, __ATOMIC_ACQ_REL);
  int kept = errno;
  if (awaits != 0 && monitor != NULL) job_begins(monitor);
  errno = kept;
}

__attribute__((always_inline)) static inline void clinux_run_job(job *next, unsigned class) {
  const void *monitor = __atomic_load_n(&current_monitor, __ATOMIC_ACQUIRE);
  clinux_task_thread *thread = own_thread;
  if (__builtin_expect(offered_monitor != monitor, false)) thread = offer(monitor);
  count(thread != NULL ? &thread->begun[class] : NULL, &begun_elsewhere[class]);
  // The monitor's barrier, after it has set this, orders the count before this load; the compiler does here.
  clinux_compiler_barrier();
  if (class == MEDIUM_CLASS && __builtin_expect(__atomic_load_n(&awaits_job, RELAXED) != 0, false)) begin_awaited_job(monitor);
  if (thread == NULL || monitor == NULL || thread->monitor != monitor) return swift_job_run(next, NULL, 0);
  __atomic_store_n(&thread->flags, __atomic_load_n(&next->flags, RELAXED), RELAXED);
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
static void clinux_run_medium_job(void *next) { clinux_run_job(next, MEDIUM_CLASS); }
static void clinux_run_high_job(void *next) { clinux_run_job(next, 3); }
static void clinux_run_interactive_job(void *next) { clinux_run_job(next, 4); }

static void (*const runners[CLINUX_TASK_PRIORITIES])(void *) = {
    clinux_run_background_job, clinux_run_utility_job, clinux_run_medium_job, clinux_run_high_job, clinux_run_interactive_job,
};

// MARK: A job is enqueued

static inline void put(job *next, size_t priority, dispatch_object queue) {
  next->scheduler_private[QUEUE_WORD] = (void *)GLOBAL_EXECUTOR;
  unsigned class = class_of(priority);
  clinux_task_thread *thread = own_thread;
  // Before the job can begin elsewhere: it is never counted as begun and not as enqueued.
  count(thread != NULL ? &thread->enqueued[class] : NULL, &enqueued_elsewhere[class]);
  dispatch_async_f(queue, next, runners[class]);
}

// A job that waits until the runtime's own queue of its priority is known.
struct clinux_task_scout {
  job *next;
  enqueue_original original;
  size_t priority;
};

void clinux_task_scout_arrives(clinux_task_scout *scout) {
  clinux_task_scout own = *scout;
  free(scout);
  dispatch_object queue = dispatch_get_current_queue();
  const char *label = queue != NULL ? dispatch_queue_get_label(queue) : NULL;
  if (label == NULL || strcmp(label, "Swift global concurrent queue") != 0) {
    __atomic_store_n(&queue_state, CLINUX_TASK_POOL_OTHER_EXECUTOR, RELAXED);
    return own.original(own.next);
  }
  __atomic_store_n(&queues[own.priority], queue, __ATOMIC_RELEASE);
  put(own.next, own.priority, queue);
}

// Sends a task of the monitor's to the queue; false if the job is to take the runtime's own way.
__attribute__((noinline)) static bool scout(job *next, size_t priority, enqueue_original original) {
  if ((__atomic_load_n(&next->flags, RELAXED) >> 8 & 0xff) != swift_concurrency_jobPriority(next)) {
    __atomic_store_n(&queue_state, CLINUX_TASK_POOL_UNKNOWN, RELAXED);
    return false;
  }
  clinux_task_scout *sent = malloc(sizeof *sent);
  if (sent == NULL) return false;
  *sent = (clinux_task_scout){.next = next, .original = original, .priority = priority};
  is_scouting = true;
  send_scout(sent, (uint8_t)priority);
  is_scouting = false;
  return true;
}

__attribute__((noinline)) static void enqueue_first(job *next, size_t priority, enqueue_original original) {
  bool is_hooked = __atomic_load_n(&queue_state, RELAXED) == CLINUX_TASK_POOL_HOOKED;
  // A task cannot be given no priority, so none can find that queue.
  bool can_find = is_hooked && priority != 0 && priority < PRIORITIES && !is_scouting;
  int kept = errno;
  bool is_scouted = can_find && scout(next, priority, original);
  errno = kept;
  if (!is_scouted) original(next);
}

static SWIFT_CALL void enqueue(job *next, enqueue_original original) {
  size_t priority = swift_concurrency_jobPriority(next);
  dispatch_object queue = priority < PRIORITIES ? __atomic_load_n(&queues[priority], __ATOMIC_ACQUIRE) : NULL;
  if (__builtin_expect(queue == NULL, false)) return enqueue_first(next, priority, original);
  put(next, priority, queue);
}

// MARK: The monitor's side

// In the child of a fork: the parent's monitor and threads are not here, and none of its jobs that waited will begin.
static void forget_parent(void) {
  __atomic_store_n(&current_monitor, NULL, __ATOMIC_RELEASE);
  __atomic_store_n(&awaits_job, 0, RELAXED);
  for (uint32_t i = 0; i < thread_count; i++) {
    clinux_task_thread *place = &threads[i].thread;
    if (place != own_thread) {
      *place = (clinux_task_thread){0};
    } else {
      memset(place->enqueued, 0, sizeof place->enqueued);
      memset(place->begun, 0, sizeof place->begun);
    }
  }
  memset(enqueued_elsewhere, 0, sizeof enqueued_elsewhere);
  memset(begun_elsewhere, 0, sizeof begun_elsewhere);
}

clinux_task_pool_state clinux_task_pool_hook(
    const void *monitor, void (*begins)(const void *monitor), void (*arrives)(const void *monitor),
    void (*send)(clinux_task_scout *scout, uint8_t priority)) {
  if (&swift_task_enqueueGlobal_hook == NULL || swift_job_run == NULL || swift_concurrency_jobPriority == NULL ||
      dispatch_get_current_queue == NULL || dispatch_queue_get_label == NULL || dispatch_async_f == NULL) {
    return CLINUX_TASK_POOL_UNKNOWN;
  }
  clinux_task_pool_state known = __atomic_load_n(&queue_state, RELAXED);
  if (known != CLINUX_TASK_POOL_HOOKED) return known;
  pid_t process = getpid();
  if (hooking_process != 0 && hooking_process != process) forget_parent();
  if (__atomic_load_n(&current_monitor, __ATOMIC_ACQUIRE) != NULL) return CLINUX_TASK_POOL_TAKEN;
  thread_begins = begins;
  job_begins = arrives;
  send_scout = send;
  // In the child of a fork, the parent's hook is this one.
  SWIFT_CALL void (*found)(job *, enqueue_original) = NULL;
  if (!__atomic_compare_exchange_n(&swift_task_enqueueGlobal_hook, &found, enqueue, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
      found != enqueue) {
    return CLINUX_TASK_POOL_TAKEN;
  }
  hooking_process = process;
  __atomic_store_n(&current_monitor, monitor, __ATOMIC_RELEASE);
  return CLINUX_TASK_POOL_HOOKED;
}

clinux_task_pool_state clinux_task_pool_state_now(void) {
  bool is_hooked = &swift_task_enqueueGlobal_hook != NULL && __atomic_load_n(&swift_task_enqueueGlobal_hook, __ATOMIC_ACQUIRE) == enqueue;
  return is_hooked ? __atomic_load_n(&queue_state, RELAXED) : CLINUX_TASK_POOL_TAKEN;
}

void clinux_task_pool_await_job(void) { __atomic_store_n(&awaits_job, 1, __ATOMIC_RELEASE); }

void clinux_task_pool_unhook(void) {
  __atomic_store_n(&current_monitor, NULL, __ATOMIC_RELEASE);
  __atomic_store_n(&awaits_job, 0, RELAXED);
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
  const void *monitor = __atomic_load_n(&current_monitor, RELAXED);
  for (uint32_t i = 0; i < known; i++) {
    const clinux_task_thread *place = &threads[i].thread;
    if (__atomic_load_n(&place->stamp.owner, RELAXED) != thread) continue;
    // A job that began under an earlier monitor stamps that one's pulse.
    return __atomic_load_n(&place->is_running, RELAXED) != 0 && __atomic_load_n(&place->monitor, RELAXED) == monitor;
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
