// Where Swift concurrency's jobs begin and end on the threads of the global executor.
//
// The runtime's hook is a variable, its functions have Swift's calling convention, and a thread-local word finds a job's thread. Swift can
// declare none of these. It can go when the runtime offers an instrument for jobs.
#ifndef CLINUX_TASK_POOL_H
#define CLINUX_TASK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "turn_stamp.h"

/// The classes of priority: background, utility, medium, user-initiated (high), and above it.
enum { CLINUX_TASK_PRIORITIES = 5 };

// JobKind of the runtime's ABI (include/swift/ABI/MetadataValues.h). Kinds from 192 on are the runtime's own: an actor that runs what is queued on
// it, and continuations.
enum { CLINUX_TASK_KIND_MASK = 0xff, CLINUX_TASK_KIND_TASK = 0 };

/// One thread of the pool. It alone writes, but for `is_taken`; any thread may read.
///
/// A thread that begins when another has ended may take over its structure, and counts on.
typedef struct clinux_task_thread {
  clinux_turn_stamp stamp;
  /// The monitor that watches the thread, or NULL.
  const void *monitor;
  /// The flags of the current job (JobFlags of the runtime's ABI): its kind in bits 0 to 7, its
  /// priority in bits 8 to 15.
  uint32_t flags;
  /// The class of its priority.
  uint32_t priority;
  /// Its address; of a task, the task's.
  uint64_t job;
  /// How many jobs the thread has put onto the pool, by class.
  uint64_t enqueued[CLINUX_TASK_PRIORITIES];
  /// How many jobs have begun on it.
  uint64_t begun[CLINUX_TASK_PRIORITIES];
  /// Whether the thread runs a job now.
  uint32_t is_running;
  uint32_t is_taken;
} clinux_task_thread;

/// What finds the runtime's own queue of a priority.
typedef struct clinux_task_scout clinux_task_scout;

typedef enum clinux_task_pool_state {
  CLINUX_TASK_POOL_HOOKED,
  /// The process, or another monitor, has a hook of its own, which is left alone.
  CLINUX_TASK_POOL_TAKEN,
  /// This runtime has no such hook, or lays its jobs out differently.
  CLINUX_TASK_POOL_UNKNOWN,
  /// The process has replaced the runtime's global executor, which gets its jobs as ever.
  CLINUX_TASK_POOL_OTHER_EXECUTOR,
} clinux_task_pool_state;

/// Has each job of the pool stamp its beginning and its end from now on. It runs on the queue on which the runtime would run it.
///
/// One monitor at a time: call it, and clinux_task_pool_unhook, on one thread after the other.
///
/// `begins` is called on each thread before its first job, with `monitor`: it calls clinux_task_thread_take and fills the stamp in, or
/// does nothing, and the thread is not watched. Jobs that are queued already run unseen.
///
/// `arrives` is called on a thread of the pool that is about to run a job of the default priority, after clinux_task_pool_await_job.
///
/// `send` is called on each thread that enqueues a job before the queue of its priority is known. It begins a detached task of that
/// priority, and that task calls clinux_task_scout_arrives with the scout.
clinux_task_pool_state clinux_task_pool_hook(
    const void *monitor, void (*begins)(const void *monitor), void (*arrives)(const void *monitor),
    void (*send)(clinux_task_scout *scout, uint8_t priority));

/// Has the next job of the default priority call `arrives`, once.
///
/// The job is counted as begun first. After a barrier on all threads, either the job calls or clinux_task_pool_begun counts it.
void clinux_task_pool_await_job(void);

/// Notes that the calling thread runs a job on the runtime's own queue of a priority, and puts the job there that waits for this.
void clinux_task_scout_arrives(clinux_task_scout *scout);

/// Whether jobs are still stamped, or why they are not.
clinux_task_pool_state clinux_task_pool_state_now(void);

/// Ends the stamping. The runtime's own queues take the jobs from now on, unless somebody has set another hook since.
void clinux_task_pool_unhook(void);

/// Takes a place for the calling thread; NULL if there are none left. Fill the stamp in, and set `monitor` last.
clinux_task_thread *clinux_task_thread_take(void);

/// The calling thread ends, or is not to be watched any more.
void clinux_task_thread_release(clinux_task_thread *thread);

/// The flags of the current job on a thread, the class of its priority, and its address. From any
/// thread.
uint32_t clinux_task_thread_flags(const clinux_task_thread *thread);
uint32_t clinux_task_thread_priority(const clinux_task_thread *thread);
uint64_t clinux_task_thread_job(const clinux_task_thread *thread);

/// Whether a thread, by its id, runs a job that is stamped. From any thread.
bool clinux_task_pool_runs_job(int32_t thread);

/// How many jobs of a class wait for a thread now.
///
/// From any thread. Never too many: a job that begins meanwhile is not counted. Jobs that were queued before the hook are not known.
uint64_t clinux_task_pool_waiting(uint32_t priority);

/// Where the function that runs each job begins, for stacks; 0 if this process has no such function.
uint64_t clinux_task_run_address(void);

/// How many jobs of a class have begun.
uint64_t clinux_task_pool_begun(uint32_t priority);

#endif
