// A host that uses the hook of Swift concurrency's global executor by itself.
#ifndef VICTIM_TASK_HOOK_H
#define VICTIM_TASK_HOOK_H

/// Sets the hook to a function that passes each job on to the runtime, also if another hook is set.
void victim_take_task_hook(void);

/// Has the hook that is set enqueue its jobs on a queue of the host's instead of the runtime's.
void victim_replace_global_executor(void);

/// The label of the queue that the calling thread serves.
const char *victim_current_queue(void);

#endif
